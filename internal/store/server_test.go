package store_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/store/storetest"
)

// A server to test against, beside those that the tests bring: scripts/interop.sh
// minio sets these.
const (
	serverEndpoint = "SMELT_TEST_S3_ENDPOINT"
	serverKey      = "SMELT_TEST_S3_ACCESS_KEY"
	serverSecret   = "SMELT_TEST_S3_SECRET_KEY"
)

func TestContractOfServer(t *testing.T) {
	t.Parallel()
	endpoint := os.Getenv(serverEndpoint)
	if endpoint == "" {
		t.Skip("no other S3 server is given: scripts/interop.sh minio starts one")
	}
	var made atomic.Int64
	run := time.Now().UnixNano()
	storetest.Run(t, func(t *testing.T) smelt.Store {
		s := openS3(t, store.S3Config{
			Endpoint: endpoint, Bucket: fmt.Sprintf("contract-%d-%d", run, made.Add(1)),
			AccessKey: os.Getenv(serverKey), SecretKey: os.Getenv(serverSecret),
		})
		if err := s.CreateBucket(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	})
}
