package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"

	"smelt/internal/store"
)

const (
	gatewayEnv  = "SMELT_TEST_GATEWAY" // the address for a child that is an S3 server
	gatewayPath = "/healthz"
	testKey     = "test-access-key"
	testSecret  = "test-secret-do-not-show"
)

// gatewayAddress is where the S3 server of this test run listens.
var gatewayAddress string

// TestMain runs the tests with an S3 server in a child process, because the
// server changes its working directory.
func TestMain(m *testing.M) {
	if address := os.Getenv(gatewayEnv); address != "" {
		if err := serveGateway(address, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, "gateway:", err)
			os.Exit(1)
		}
		return
	}
	code, err := runWithGateway(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		code = 1
	}
	os.Exit(code)
}

func runWithGateway(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "store-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	gatewayAddress, err = freeAddress()
	if err != nil {
		return 0, err
	}
	child := exec.Command(os.Args[0], dir)
	child.Env = append(os.Environ(), gatewayEnv+"="+gatewayAddress)
	var said bytes.Buffer
	child.Stdout, child.Stderr = &said, &said
	lifeline, err := child.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := child.Start(); err != nil {
		return 0, err
	}
	defer child.Wait()
	defer lifeline.Close()
	if err := waitHealthy("http://" + gatewayAddress + gatewayPath); err != nil {
		lifeline.Close()
		child.Wait()
		return 0, fmt.Errorf("%w\n%s", err, said.String())
	}
	return m.Run(), nil
}

// serveGateway serves S3 over a folder until standard input ends.
func serveGateway(address, dir string) error {
	root, side := filepath.Join(dir, "data"), filepath.Join(dir, "meta")
	for _, d := range []string{root, side} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	attributes, err := meta.NewSideCar(side)
	if err != nil {
		return err
	}
	backend, err := posix.New(root, attributes, posix.PosixOpts{SideCarDir: side, CopyObjectThreshold: 5 << 30})
	if err != nil {
		return err
	}
	iam, err := users(filepath.Join(dir, "iam"))
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return embedgw.RunVersityGW(context.Background(), backend, &embedgw.Config{
		RootUserAccess:    testKey,
		RootUserSecret:    testSecret,
		IAMService:        iam,
		Ports:             []string{address},
		MaxConnections:    1024,
		MaxRequests:       512,
		MultipartMaxParts: 10000,
		HealthPath:        gatewayPath,
		KeepAlive:         true,
		Quiet:             true,
	})
}

// users are a writer and a reader, who may do what a bucket's policy says.
func users(dir string) (auth.IAMService, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	iam, err := auth.NewInternal(auth.Account{Access: testKey, Secret: testSecret, Role: auth.RoleAdmin}, dir)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"writer", "reader"} {
		if err := iam.CreateAccount(auth.Account{Access: name, Secret: testSecret, Role: auth.RoleUser}); err != nil {
			return nil, err
		}
	}
	return iam, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func waitHealthy(url string) error {
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		reply, err := http.Get(url)
		if err == nil {
			reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s", reply.Status)
		}
		select {
		case <-deadline:
			return fmt.Errorf("%s: %w", url, err)
		case <-tick.C:
		}
	}
}

var buckets atomic.Int64

// config is that of a bucket of the test run's server, which no other test has.
func config(t *testing.T) store.S3Config {
	t.Helper()
	return store.S3Config{
		Endpoint:  "http://" + gatewayAddress,
		Bucket:    strings.ToLower(fmt.Sprintf("bucket-%d", buckets.Add(1))),
		AccessKey: testKey,
		SecretKey: testSecret,
	}
}

func openS3(t *testing.T, cfg store.S3Config) *store.S3 {
	t.Helper()
	s, err := store.OpenS3(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newBucket opens a bucket that is empty.
func newBucket(t *testing.T) *store.S3 {
	t.Helper()
	s := openS3(t, config(t))
	if err := s.CreateBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
