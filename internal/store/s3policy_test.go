package store_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"smelt"
)

// policies are those of docs/security.md for a writer and a reader, as one of a
// bucket's, which names them.
func policies(t *testing.T, bucket string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	type policy struct {
		Version   string
		Statement []map[string]any
	}
	var all policy
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/security.md has %d blocks of JSON, want the writer's and the reader's", len(blocks))
	}
	for i, user := range []string{"writer", "reader"} {
		var one policy
		if err := json.Unmarshal([]byte(strings.ReplaceAll(blocks[i][1], ":::lake", ":::"+bucket)), &one); err != nil {
			t.Fatal(err)
		}
		for _, s := range one.Statement {
			s["Principal"] = []string{user}
			all.Statement = append(all.Statement, s)
		}
		all.Version = one.Version
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestS3Policies lets a writer and a reader do what the documented policies let
// them.
func TestS3Policies(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	root := openS3(t, cfg)
	if err := root.CreateBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin, err := minio.New(gatewayAddress, &minio.Options{Creds: credentials.NewStaticV4(testKey, testSecret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.SetBucketPolicy(t.Context(), cfg.Bucket, policies(t, cfg.Bucket)); err != nil {
		t.Fatal(err)
	}

	cfg.AccessKey = "writer"
	writer := openS3(t, cfg)
	if err := writer.Check(t.Context()); err != nil {
		t.Errorf("the writer: %v", err)
	}
	for _, key := range []string{"bronze/a", "bronze/b"} {
		if err := writer.Put(t.Context(), key, strings.NewReader(key), smelt.PutOptions{IfAbsent: true, Meta: map[string]string{"writer": "w"}}); err != nil {
			t.Errorf("the writer: %v", err)
		}
	}

	cfg.AccessKey = "reader"
	reader := openS3(t, cfg)
	if found, err := reader.List(t.Context(), "bronze/", "", 10); err != nil || len(found) != 2 {
		t.Errorf("the reader lists %v, error %v", found, err)
	}
	if _, err := reader.Stat(t.Context(), "bronze/a"); err != nil {
		t.Errorf("the reader: %v", err)
	}
	if _, err := reader.Stat(t.Context(), "bronze/c"); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("the reader, of an object that is not there: %v", err)
	}
	body, _, err := reader.Get(t.Context(), "bronze/a")
	if err != nil {
		t.Fatalf("the reader: %v", err)
	}
	if text, err := io.ReadAll(body); string(text) != "bronze/a" || err != nil {
		t.Errorf("the reader reads %q, error %v", text, err)
	}
	body.Close()
	for what, err := range map[string]error{
		"put":         reader.Put(t.Context(), "bronze/c", strings.NewReader("c"), smelt.PutOptions{}),
		"delete":      reader.Delete(t.Context(), "bronze/a"),
		"delete many": reader.Delete(t.Context(), "bronze/a", "bronze/b"),
	} {
		if err == nil || !strings.Contains(err.Error(), "denied by http://"+gatewayAddress+": check SMELT_S3_ACCESS_KEY, SMELT_S3_SECRET_KEY and what that key may do") {
			t.Errorf("%s by the reader: got error %v, want it denied", what, err)
		}
	}
	if err := writer.Delete(t.Context(), "bronze/a", "bronze/b"); err != nil {
		t.Errorf("the writer: %v", err)
	}
}
