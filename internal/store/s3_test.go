package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/wiretest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	s := newBucket(t)
	if err := s.CreateBucket(t.Context()); err != nil {
		t.Errorf("create a bucket that is there: %v", err)
	}
	for range 2 {
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left, err := s.List(t.Context(), "", "", 10); err != nil || len(left) > 0 {
		t.Errorf("the check left %v, %v", left, err)
	}
}

func TestEndpointForms(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{gatewayAddress, "http://" + gatewayAddress, "http://" + gatewayAddress + "/"} {
		cfg := config(t)
		cfg.Endpoint = endpoint
		if err := openS3(t, cfg).CreateBucket(t.Context()); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

func TestOpenS3Refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		edit func(*store.S3Config)
		want string
	}{
		{"no endpoint", func(c *store.S3Config) { c.Endpoint = "" }, "check SMELT_S3_ENDPOINT"},
		{"a path", func(c *store.S3Config) { c.Endpoint += "/lake" }, "with nothing before or after it"},
		{"another scheme", func(c *store.S3Config) { c.Endpoint = "s3://lake" }, `scheme "s3" is neither`},
		{"no URL", func(c *store.S3Config) { c.Endpoint = "http://a b" }, "check SMELT_S3_ENDPOINT"},
		{"no bucket", func(c *store.S3Config) { c.Bucket = "" }, "check SMELT_S3_BUCKET"},
		{"no secret", func(c *store.S3Config) { c.SecretKey = "" }, "set SMELT_S3_ACCESS_KEY and SMELT_S3_SECRET_KEY"},
	}
	for _, tt := range tests {
		cfg := config(t)
		tt.edit(&cfg)
		_, err := store.OpenS3(t.Context(), cfg)
		wantTrouble(t, tt.name, err, tt.want)
	}
}

// wantTrouble checks that an error is of the store's kind and says what to do.
func wantTrouble(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: no error", what)
	case !errors.Is(err, smelt.ErrStore) || errors.Is(err, smelt.ErrNotFound) || errors.Is(err, smelt.ErrExists):
		t.Errorf("%s: of the wrong kind: %v", what, err)
	case !strings.Contains(err.Error(), want):
		t.Errorf("%s:\n got %v\nwant … %s …", what, err, want)
	case strings.Contains(err.Error(), testSecret):
		t.Errorf("%s shows the secret: %v", what, err)
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	nobody, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	at := "http://" + gatewayAddress
	tests := []struct {
		name string
		edit func(*store.S3Config)
		want string
	}{
		{
			name: "wrong key",
			edit: func(c *store.S3Config) { c.AccessKey = "somebody" },
			want: "store: access key or secret refused by " + at + ": check SMELT_S3_ACCESS_KEY and SMELT_S3_SECRET_KEY",
		},
		{
			name: "wrong secret",
			edit: func(c *store.S3Config) { c.SecretKey = testSecret + "-not" },
			want: "store: access key or secret refused by " + at + ": check SMELT_S3_ACCESS_KEY and SMELT_S3_SECRET_KEY",
		},
		{
			name: "missing bucket",
			edit: func(c *store.S3Config) { c.Bucket = "not-there" },
			want: "store: bucket not-there does not exist at " + at + ": create it, or set SMELT_S3_BUCKET",
		},
		{
			name: "wrong region",
			edit: func(c *store.S3Config) { c.Region = "eu-north-1" },
			want: "check SMELT_S3_REGION",
		},
		{
			name: "endpoint down",
			edit: func(c *store.S3Config) { c.Endpoint = nobody },
			want: "store: no answer from http://" + nobody + ": is it up? check SMELT_S3_ENDPOINT: dial tcp",
		},
		{
			name: "HTTPS to HTTP",
			edit: func(c *store.S3Config) { c.Endpoint = "https://" + gatewayAddress },
			want: "store: https://" + gatewayAddress + ": it does not speak TLS",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			if err := openS3(t, cfg).CreateBucket(t.Context()); err != nil {
				t.Fatal(err)
			}
			tt.edit(&cfg)
			s := openS3(t, cfg)
			var group sync.WaitGroup
			for name, call := range calls {
				group.Go(func() { wantTrouble(t, name, call(t.Context(), s), tt.want) })
			}
			group.Wait()
		})
	}
}

// calls are one of each kind.
var calls = map[string]func(ctx context.Context, s *store.S3) error{
	"get": func(ctx context.Context, s *store.S3) error {
		_, _, err := s.Get(ctx, "k")
		return err
	},
	"stat": func(ctx context.Context, s *store.S3) error {
		_, err := s.Stat(ctx, "k")
		return err
	},
	"list": func(ctx context.Context, s *store.S3) error {
		_, err := s.List(ctx, "", "", 1)
		return err
	},
	"put": func(ctx context.Context, s *store.S3) error {
		return s.Put(ctx, "k", strings.NewReader("x"), smelt.PutOptions{})
	},
	"delete":      func(ctx context.Context, s *store.S3) error { return s.Delete(ctx, "k") },
	"delete many": func(ctx context.Context, s *store.S3) error { return s.Delete(ctx, "k", "l") },
	"check":       func(ctx context.Context, s *store.S3) error { return s.Check(ctx) },
}

// TestCancelWhileWaiting ends the caller's ctx while the server says nothing.
func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		s := through(t, func(_ http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
			io.Copy(io.Discard, r.Body) // else the server does not notice that the client goes
			cancel()
			<-r.Context().Done()
			return true
		})
		if err := call(ctx, s); !errors.Is(err, context.Canceled) || errors.Is(err, smelt.ErrStore) {
			t.Errorf("%s = %v, want context.Canceled, not the store's fault", name, err)
		}
	}
}

// through opens a new bucket of the server by way of a wire on which answer may
// answer itself.
func through(t *testing.T, answer wiretest.Answer) *store.S3 {
	t.Helper()
	gateway := wiretest.NewGateway(t, gatewayAddress)
	gateway.Set(answer)
	return at(t, gateway.Address())
}

// at opens a new bucket of the server, which is reached at another address.
func at(t *testing.T, address string) *store.S3 {
	t.Helper()
	cfg := config(t)
	if err := openS3(t, cfg).CreateBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg.Endpoint = "http://" + address
	return openS3(t, cfg)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>so it is</Message></Error>", code)
}

// TestTransient has the first two tries of each call fail.
func TestTransient(t *testing.T) {
	t.Parallel()
	faults := map[string]func(w http.ResponseWriter, r *http.Request){
		"slow down": func(w http.ResponseWriter, r *http.Request) { refuse(w, 503, "SlowDown") },
		"conflict":  func(w http.ResponseWriter, r *http.Request) { refuse(w, 409, "ConditionalRequestConflict") },
		"bad gateway, half the body read": func(w http.ResponseWriter, r *http.Request) {
			io.CopyN(io.Discard, r.Body, 1<<19)
			w.WriteHeader(502)
		},
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			s := through(t, func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
				if calls.Add(1)%3 == 0 {
					return false
				}
				fault(w, r)
				return true
			})
			body := strings.Repeat("0123456789abcdef", 1<<16)
			if err := s.Put(t.Context(), "k", strings.NewReader(body), smelt.PutOptions{IfAbsent: true}); err != nil {
				t.Fatal(err)
			}
			reader, object, err := s.Get(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if data, err := io.ReadAll(reader); err != nil || string(data) != body || object.Size != int64(len(body)) {
				t.Errorf("%d bytes of %d came back, or other ones: %v", len(data), len(body), err)
			}
			if objects, err := s.List(t.Context(), "", "", 10); err != nil || len(objects) != 1 {
				t.Errorf("listed %v, %v", objects, err)
			}
			if err := s.Delete(t.Context(), "k"); err != nil {
				t.Error(err)
			}
			if n := calls.Load(); n != 12 {
				t.Errorf("%d requests, want 3 for each of 4 calls", n)
			}
		})
	}
}

func TestTransientForTooLong(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := through(t, func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
		calls.Add(1)
		refuse(w, 409, "ConditionalRequestConflict")
		return true
	})
	err := s.Put(t.Context(), "k", strings.NewReader("x"), smelt.PutOptions{IfAbsent: true})
	wantTrouble(t, "put", err, "try again")
	if n := calls.Load(); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

// TestLostReply has a put done whose reply is lost: the next try finds the key
// taken, by the put itself.
func TestLostReply(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	s := through(t, func(w http.ResponseWriter, r *http.Request, pass func() *httptest.ResponseRecorder) bool {
		if r.Method != http.MethodPut || lost.Swap(true) {
			return false
		}
		pass()
		panic(http.ErrAbortHandler)
	})
	opts := smelt.PutOptions{IfAbsent: true, Meta: map[string]string{"writer": "me"}}
	if err := s.Put(t.Context(), "k", strings.NewReader("x"), opts); !errors.Is(err, smelt.ErrExists) {
		t.Errorf("put = %v, want ErrExists", err)
	}
	object, err := s.Stat(t.Context(), "k")
	if err != nil || object.Meta["writer"] != "me" {
		t.Errorf("stat = %+v, %v, want the put's own object", object, err)
	}
}

func TestCheckWithoutConditions(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"ignores the header": func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodPut // 200, whatever it asks
		},
		"does not know the header": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("If-None-Match") != "*" {
				return false
			}
			refuse(w, 501, "NotImplemented")
			return true
		},
	}
	for name, answer := range tests {
		s := through(t, func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
			return answer(w, r)
		})
		wantTrouble(t, name, s.Check(t.Context()), "does not enforce If-None-Match")
	}
}

// TestListBreaksOff has the second page of a listing fail: the next try goes on after the
// first one.
func TestListBreaksOff(t *testing.T) {
	t.Parallel()
	s := through(t, func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
		switch query := r.URL.Query(); {
		case query.Has("continuation-token"):
			refuse(w, 503, "SlowDown")
		case query.Get("start-after") == "b":
			fmt.Fprint(w, "<ListBucketResult><Contents><Key>c</Key></Contents></ListBucketResult>")
		default:
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"+
				"<Contents><Key>a</Key></Contents><Contents><Key>b</Key></Contents></ListBucketResult>")
		}
		return true
	})
	objects, err := s.List(t.Context(), "", "", 10)
	var keys []string
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	if err != nil || !slices.Equal(keys, []string{"a", "b", "c"}) {
		t.Errorf("got %q, %v", keys, err)
	}
}

func TestListOutOfOrder(t *testing.T) {
	t.Parallel()
	s := through(t, func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
		fmt.Fprint(w, "<ListBucketResult><Contents><Key>b</Key></Contents><Contents><Key>a</Key></Contents></ListBucketResult>")
		return true
	})
	_, err := s.List(t.Context(), "", "", 10)
	wantTrouble(t, "list", err, "not listed in the order of their keys")
}

func TestGetCutOff(t *testing.T) {
	t.Parallel()
	s := through(t, func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
		if r.Method != http.MethodGet {
			return false
		}
		w.Header().Set("Last-Modified", "Sun, 29 Nov 2026 10:00:00 GMT")
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
		return true
	})
	body, _, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	_, err = io.ReadAll(body)
	wantTrouble(t, "read", err, "store: no answer from")
}
