package store_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/trust"
	"smelt/internal/trust/trusttest"
)

// encrypted is the test run's server behind a certificate; nil is none.
func encrypted(t *testing.T, certificate *tls.Certificate) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(passOn(gatewayAddress))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(server.Close)
	if certificate == nil {
		server.Start()
	} else {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
		server.StartTLS()
	}
	return server.URL
}

// passOn is a proxy that leaves requests as they were signed.
func passOn(address string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:  func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host = "http", address },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}

// TestS3TLS reaches the store over TLS, with an authority of one's own, and says
// why it cannot.
func TestS3TLS(t *testing.T) {
	t.Parallel()
	ours := trusttest.NewAuthority(t, "ours")
	signed := func(host string, until time.Duration) *tls.Certificate {
		c := ours.Certificate(t, host, time.Now().Add(until))
		return &c
	}
	good, plain := encrypted(t, signed("127.0.0.1", time.Hour)), encrypted(t, nil)
	for _, c := range []struct {
		name, endpoint, authorities, want string
	}{
		{"good", good, ours.File, ""},
		{"unknown authority", good, "", "its certificate is signed by an unknown authority (CN=ours): name the PEM file of that authority with SMELT_CA"},
		{"another host", encrypted(t, signed("s3.test", time.Hour)), ours.File, "its certificate is for s3.test, not for 127.0.0.1"},
		{"expired", encrypted(t, signed("127.0.0.1", -time.Hour)), ours.File, "renew it, or set the clock right"},
		{"TLS to plain text", strings.Replace(plain, "http:", "https:", 1), ours.File, "it does not speak TLS; check SMELT_S3_ENDPOINT"},
		{"plain text to TLS", strings.Replace(good, "https:", "http:", 1), ours.File, "it wants TLS: begin SMELT_S3_ENDPOINT with https://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			trusted, err := trust.Config(c.authorities)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Endpoint, cfg.TLS = c.endpoint, trusted
			s := openS3(t, cfg)
			err = s.CreateBucket(t.Context())
			if c.want == "" {
				if err == nil {
					err = s.Check(t.Context())
				}
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				return
			}
			_, err = s.List(t.Context(), "", "", 1)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "store: "+c.endpoint) {
				t.Errorf("got error %v, want one of %s that says %q", err, c.endpoint, c.want)
			}
		})
	}
}

// rekeyed is the test run's server under other keys, which may change.
func rekeyed(t *testing.T, keys *atomic.Pointer[store.Keys]) (url string) {
	t.Helper()
	gateway := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", gatewayAddress, gatewayAddress
			p.Out.Header.Del("Authorization")
			p.Out.Header.Del("X-Amz-Security-Token")
			*p.Out = *signer.SignV4(*p.Out, testKey, testSecret, "", "us-east-1")
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		valid := keys.Load()
		if strings.Contains(r.Header.Get("Authorization"), "Credential="+valid.Access+"/") && r.Header.Get("X-Amz-Security-Token") == valid.Session {
			gateway.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		if r.Method != http.MethodHead {
			_, _ = w.Write([]byte(`<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>`))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestS3KeysRotated takes the keys away while the store is in use.
func TestS3KeysRotated(t *testing.T) {
	t.Parallel()
	var valid, set atomic.Pointer[store.Keys]
	first, second := &store.Keys{Access: "first", Secret: "one", Session: "token"}, &store.Keys{Access: "second", Secret: "two"}
	valid.Store(first)
	set.Store(first)
	var said strings.Builder
	cfg := config(t)
	cfg.Endpoint, cfg.AccessKey, cfg.SecretKey, cfg.SessionToken = rekeyed(t, &valid), first.Access, first.Secret, first.Session
	cfg.Reread = func() (store.Keys, error) { return *set.Load(), nil }
	cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
	s := openS3(t, cfg)
	if err := s.CreateBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	put := func(key string) error {
		return s.Put(t.Context(), key, strings.NewReader(key), smelt.PutOptions{IfAbsent: true})
	}
	if err := put("a"); err != nil {
		t.Fatal(err)
	}
	valid.Store(second)
	if err := put("b"); err == nil || !strings.Contains(err.Error(), "access key or secret refused") {
		t.Errorf("with keys that are no longer valid: got error %v", err)
	}
	set.Store(second)
	reply, err := s.Reader(1).RoundTrip(read(t, "/"+cfg.Bucket+"/a"))
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("a read with the new keys: got %v and error %v", reply, err)
	}
	reply.Body.Close()
	if err := put("b"); err != nil {
		t.Errorf("with the new keys: %v", err)
	}
	valid.Store(first)
	set.Store(first)
	if _, err := s.Stat(t.Context(), "b"); err != nil {
		t.Errorf("with the first keys again: %v", err)
	}
	if n := strings.Count(said.String(), "the S3 keys have changed"); n != 2 {
		t.Errorf("the log says so %d times, want 2:\n%s", n, &said)
	}
}

// TestS3Role has the keys come from the machine's role, as a container's agent
// gives them.
func TestS3Role(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"AccessKeyId":"role-key","SecretAccessKey":"role-secret","Token":"role-token","Expiration":%q}`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer agent.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.URL)
	cfg := config(t)
	cfg.Endpoint, cfg.AccessKey, cfg.SecretKey = "https://s3.eu-north-1.amazonaws.com", "", ""
	s := openS3(t, cfg)
	want := store.Keys{Access: "role-key", Secret: "role-secret", Session: "role-token"}
	if got, err := s.Current(t.Context()); got != want || err != nil {
		t.Errorf("got the keys %v and error %v, want %v", got, err, want)
	}
	agent.Close()
	none := openS3(t, cfg)
	if _, err := none.List(t.Context(), "", "", 1); err == nil || !strings.Contains(err.Error(), "no keys are set, and Amazon gives this machine none") {
		t.Errorf("without a role: got error %v", err)
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", silent.URL)
	waiting := openS3(t, cfg)
	waiting.Quiet(50 * time.Millisecond)
	wantTrouble(t, "list with an agent that never answers", func() error { _, err := waiting.List(t.Context(), "", "", 1); return err }(), "Amazon gives this machine none")
	if _, err := waiting.Reader(1).RoundTrip(read(t, "/lake/a")); err == nil || !strings.Contains(err.Error(), "Amazon gives this machine none") {
		t.Errorf("a read with an agent that never answers: got error %v", err)
	}
	cfg.Endpoint = "https://s3.test"
	if _, err := store.OpenS3(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "set SMELT_S3_ACCESS_KEY") {
		t.Errorf("without keys elsewhere: got error %v", err)
	}
}

func read(t *testing.T, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, (&url.URL{Scheme: "http", Host: "relay", Path: path}).String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
