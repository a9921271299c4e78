package shell

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"smelt"
)

// Remote is the bucket that holds the lake.
type Remote struct {
	Bucket    string
	Transport http.RoundTripper // takes reads to the real S3, and signs them
}

// relay is the S3 endpoint of the shell's DuckDB. It forwards reads of the lake's bucket, signed, and
// answers everything else with 403. DuckDB never has the real keys. So no statement can change the
// lake.
type relay struct {
	token  string // the access key of this relay, which only this process knows
	addr   string
	server *http.Server

	mu     sync.Mutex
	failed error // why the real S3 could not be read, last
}

// RelayConns are the idle connections to keep to the real S3, above what DuckDB
// opens.
const RelayConns = 64

const (
	replyTimeout = 30 * time.Second // for a request's head
	closeTimeout = 2 * time.Second  // for reads under way
)

// openRelay starts a relay on a free port of the loopback.
func openRelay(remote Remote) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("relay to S3: %w", err)
	}
	r := &relay{token: rand.Text(), addr: listener.Addr().String()}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(*httputil.ProxyRequest) {}, // the transport does it
		Transport:      remote.Transport,
		ModifyResponse: r.look,
		ErrorHandler:   r.fail,
		ErrorLog:       log.New(io.Discard, "", 0), // fail has it
	}
	r.server = &http.Server{Handler: r.only(remote.Bucket, proxy), ReadHeaderTimeout: replyTimeout}
	go r.server.Serve(listener)
	return r, nil
}

// only lets through the reads of a bucket by who knows the token.
func (r *relay) only(bucket string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, rest, _ := strings.Cut(req.Header.Get("Authorization"), "Credential=")
		token, _, _ := strings.Cut(rest, "/")
		path := req.URL.Path
		switch {
		case subtle.ConstantTimeCompare([]byte(token), []byte(r.token)) != 1:
			http.Error(w, "who are you?", http.StatusForbidden)
		case req.Method != http.MethodGet && req.Method != http.MethodHead:
			http.Error(w, "the query shell only reads", http.StatusForbidden)
		case path != "/"+bucket && !strings.HasPrefix(path, "/"+bucket+"/"):
			http.Error(w, "the query shell only reads the lake", http.StatusForbidden)
		default:
			next.ServeHTTP(w, req)
		}
	})
}

// fail answers when the real S3 does not.
func (r *relay) fail(w http.ResponseWriter, req *http.Request, err error) {
	r.note(err)
	w.WriteHeader(http.StatusBadGateway)
}

// look records a failure of the real S3, or a reply that it broke off. DuckDB retries; when it gives up, its
// own error does not name the cause.
func (r *relay) look(reply *http.Response) error {
	if reply.StatusCode == http.StatusTooManyRequests || reply.StatusCode >= http.StatusInternalServerError {
		r.note(smelt.Mark(smelt.ErrStore, fmt.Errorf("S3 answers %s when it is read", reply.Status)))
	}
	reply.Body = &lookedAt{reply.Body, r}
	return nil
}

// lookedAt is the body of a reply, whose early end is noted.
type lookedAt struct {
	io.ReadCloser
	relay *relay
}

func (b *lookedAt) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.relay.note(smelt.Mark(smelt.ErrStore, fmt.Errorf("S3 hung up when it was read: %w", err)))
	}
	return n, err
}

// note keeps an error of the real S3, to be reported.
func (r *relay) note(err error) {
	if errors.Is(err, context.Canceled) { // DuckDB hung up
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// trouble returns why the real S3 could not be read since it was last asked.
func (r *relay) trouble() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.failed
	r.failed = nil
	return err
}

func (r *relay) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(r.server.Shutdown(ctx))
}
