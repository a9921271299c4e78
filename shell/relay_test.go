package shell

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"smelt"
	"smelt/internal/store"
)

// The relay is what keeps the lake from being changed: it is asked as a
// statement that has got past the guard would ask.
func TestRelay(t *testing.T) {
	t.Parallel()
	var passed []string
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed = append(passed, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Range"))
		io.WriteString(w, "bytes")
	}))
	defer remote.Close()
	objects, err := store.OpenS3(t.Context(), store.S3Config{Endpoint: remote.URL, Bucket: "lake", AccessKey: "key", SecretKey: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := openRelay(Remote{Bucket: "lake", Transport: objects.Reader(RelayConns)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	ask := func(method, path, token string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+token+"/20261129/us-east-1/s3/aws4_request, Signature=x")
		req.Header.Set("Range", "bytes=0-4")
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		return reply.StatusCode
	}
	for _, c := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/lake/silver/sensors/metadata/1.json", r.token, 200},
		{"HEAD", "/lake/x", r.token, 200},
		{"GET", "/lake?list-type=2&prefix=bronze%2F", r.token, 200},
		{"PUT", "/lake/x", r.token, 403},
		{"POST", "/lake/x?uploads=", r.token, 403},
		{"DELETE", "/lake/x", r.token, 403},
		{"GET", "/other/x", r.token, 403},
		{"GET", "/lakes/x", r.token, 403},
		{"GET", "/lake/x", "guess", 403},
		{"GET", "/lake/x", "", 403},
	} {
		if got := ask(c.method, c.path, c.token); got != c.want {
			t.Errorf("%s %s with token %q: %d, want %d", c.method, c.path, c.token, got, c.want)
		}
	}
	if len(passed) != 3 || passed[0] != "GET /lake/silver/sensors/metadata/1.json bytes=0-4" {
		t.Errorf("passed on: %q", passed)
	}
	if err := r.trouble(); err != nil {
		t.Errorf("no trouble was to be expected: %v", err)
	}
	remote.Close()
	if got := ask("GET", "/lake/x", r.token); got != 502 || r.trouble() == nil || r.trouble() != nil {
		t.Errorf("with S3 away: %d, and trouble is to be told once", got)
	}
}

// TestRelayTellsOfTrouble has the real S3 answer in ways that DuckDB cannot tell from a
// mistake in a statement.
func TestRelayTellsOfTrouble(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"busy":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"throttled": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			remote := httptest.NewServer(answer)
			defer remote.Close()
			objects, err := store.OpenS3(t.Context(), store.S3Config{Endpoint: remote.URL, Bucket: "lake", AccessKey: "key", SecretKey: "secret"})
			if err != nil {
				t.Fatal(err)
			}
			r, err := openRelay(Remote{Bucket: "lake", Transport: objects.Reader(RelayConns)})
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.addr+"/lake/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+r.token+"/20261129/us-east-1/s3/aws4_request, Signature=x")
			if reply, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.ReadAll(reply.Body) // which may be cut off
				reply.Body.Close()
			}
			if err := r.trouble(); !errors.Is(err, smelt.ErrStore) {
				t.Errorf("trouble: got %v, want one of the store", err)
			}
		})
	}
}
