package store_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/wiretest"
)

// TestSilence has a server that accepts each request and never answers: each call
// is tried once more, and then says what is wrong.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			s := through(t, func(_ http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
				requests.Add(1)
				io.Copy(io.Discard, r.Body) // else the server does not notice that the client goes
				<-r.Context().Done()
				return true
			})
			s.Quiet(100 * time.Millisecond)
			wantTrouble(t, name, call(t.Context(), s), "is silent: no byte moved for 100ms")
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

// TestSilenceWithinBody stops in the middle of a download, and of an upload.
func TestSilenceWithinBody(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789abcdef", 1<<20) // more than any buffer holds
	t.Run("get", func(t *testing.T) {
		t.Parallel()
		s := through(t, wiretest.StallBody(func(r *http.Request) bool { return r.Method == http.MethodGet }))
		if err := s.Put(t.Context(), "k", strings.NewReader(body), smelt.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		s.Quiet(5 * time.Second) // above what the body takes on a busy machine
		reader, _, err := s.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		_, err = io.ReadAll(reader)
		wantTrouble(t, "read", err, "is silent")
	})
	t.Run("put", func(t *testing.T) {
		t.Parallel()
		s := through(t, func(_ http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
			io.CopyN(io.Discard, r.Body, 1<<20)
			time.Sleep(time.Second) // the server does not notice that the client goes
			return true
		})
		s.Quiet(100 * time.Millisecond)
		wantTrouble(t, "put", s.Put(t.Context(), "k", strings.NewReader(body), smelt.PutOptions{}), "is silent")
	})
}

// TestSlowIsNotSilent has transfers that take longer than the wire may be silent:
// a slow sender, and a slow reader.
func TestSlowIsNotSilent(t *testing.T) {
	t.Parallel()
	const quiet = 2 * time.Second
	body := bytes.Repeat([]byte("x"), 1<<20)
	slow := func(_ http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool { return false }
	s := through(t, slow)
	if err := s.Put(t.Context(), "k", bytes.NewReader(body), smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Quiet(quiet)
	t.Run("reader", func(t *testing.T) {
		t.Parallel()
		reader, _, err := s.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		_, err = io.CopyN(io.Discard, reader, 1)
		time.Sleep(quiet + quiet/4) // the reader's own work
		if n, err := io.Copy(io.Discard, reader); err != nil || n != int64(len(body)-1) {
			t.Errorf("%d bytes of %d, %v", n, len(body)-1, err)
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("sender", func(t *testing.T) {
		t.Parallel()
		slowly := through(t, func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
			if r.Method != http.MethodGet {
				return false
			}
			w.Header().Set("Last-Modified", "Sun, 29 Nov 2026 10:00:00 GMT")
			w.Header().Set("Content-Length", "10")
			for range 10 {
				io.WriteString(w, "x")
				http.NewResponseController(w).Flush()
				time.Sleep(quiet / 8) // the wire's own slowness
			}
			return true
		})
		slowly.Quiet(quiet)
		reader, _, err := slowly.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if data, err := io.ReadAll(reader); err != nil || len(data) != 10 {
			t.Errorf("%d bytes of 10, %v", len(data), err)
		}
	})
}

// TestRefusedWhileSending has a server that refuses conditional puts before it has
// read them, and closes: the client may find its connection broken before it has read
// the refusal.
func TestRefusedWhileSending(t *testing.T) {
	t.Parallel()
	var puts atomic.Int64
	s := through(t, func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
		if r.Method != http.MethodPut || r.Header.Get("If-None-Match") == "" {
			return false
		}
		puts.Add(1)
		wire, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		wire.(*net.TCPConn).SetLinger(0) // the refusal never arrives
		wire.Close()
		return true
	})
	body := strings.Repeat("0123456789abcdef", 1<<20) // more than any buffer holds
	once := smelt.PutOptions{IfAbsent: true}
	wantTrouble(t, "put", s.Put(t.Context(), "k", strings.NewReader(body), once), "no answer from")
	if err := s.Put(t.Context(), "k", strings.NewReader("x"), smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	puts.Store(0)
	if err := s.Put(t.Context(), "k", strings.NewReader(body), once); !errors.Is(err, smelt.ErrExists) || puts.Load() != 1 {
		t.Errorf("put of what exists = %v after %d tries, want ErrExists after one", err, puts.Load())
	}
}

// TestDeadConnections breaks a wire so that existing connections hang. That costs one try, not one per connection.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	wire := wiretest.NewProxy(t, gatewayAddress)
	s := at(t, wire.Address())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := s.Put(t.Context(), "k", strings.NewReader("x"), smelt.PutOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	wire.Set(wiretest.Fault{Silent: true, Forget: true})
	s.Quiet(100 * time.Millisecond)
	_, err := s.Stat(t.Context(), "k")
	wantTrouble(t, "stat", err, "is silent")
	wire.Set(wiretest.Fault{})
	s.Quiet(5 * time.Second)
	if _, err := s.Stat(t.Context(), "k"); err != nil {
		t.Errorf("stat when the wire is in order again: %v", err)
	}
}

// TestRetryAfter leaves a server alone for as long as it asks.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]string{503: "SlowDown", 429: "TooManyRequests"} {
		for _, after := range []string{"1", ""} {
			var first, second time.Time
			s := through(t, func(w http.ResponseWriter, _ *http.Request, _ func() *httptest.ResponseRecorder) bool {
				if !first.IsZero() {
					second = time.Now()
					return false
				}
				first = time.Now()
				if after != "" {
					w.Header().Set("Retry-After", after)
				}
				refuse(w, status, code)
				return true
			})
			if _, err := s.Stat(t.Context(), "k"); !errors.Is(err, smelt.ErrNotFound) {
				t.Errorf("%d: stat = %v, want ErrNotFound", status, err)
			}
			if pause := second.Sub(first); after != "" && pause < time.Second {
				t.Errorf("%d: tried again after %s, but asked to wait for a second", status, pause)
			}
		}
	}
}

func TestRetryAfterTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{503, "7", 7 * time.Second},
		{429, "Mon, 30 Nov 2026 12:00:03 GMT", 3 * time.Second},
		{503, "soon", 0},
		{503, "", 0},
		{200, "7", 0},
	} {
		reply := &http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.header}}}
		if got := store.RetryAfter(reply, now); got != c.want {
			t.Errorf("%d %q: %s, want %s", c.status, c.header, got, c.want)
		}
	}
}

// TestForeignNotFound has a proxy in between that does not find the S3: that no
// object is missing for that matters more than what a call says.
func TestForeignNotFound(t *testing.T) {
	t.Parallel()
	s := through(t, func(w http.ResponseWriter, _ *http.Request, _ func() *httptest.ResponseRecorder) bool {
		http.Error(w, "default backend", http.StatusNotFound)
		return true
	})
	var group sync.WaitGroup
	for name, call := range calls {
		group.Go(func() { wantTrouble(t, name, call(t.Context(), s), "without a code of S3's") })
	}
	group.Wait()
}
