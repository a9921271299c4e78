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
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"
)

// Remote is the S3 that holds the lake.
type Remote struct {
	Endpoint  string // http://host:port, https://host, or host:port
	Region    string
	Bucket    string
	AccessKey string
	SecretKey string
}

// relay is the S3 that the shell's DuckDB sees: it signs reads of the lake's
// bucket and passes them on, and answers anything else itself, with 403. DuckDB
// never holds the real keys. So whatever a statement says, and however it is
// written, it cannot change the lake.
type relay struct {
	token  string // the access key of this relay, which only this process knows
	addr   string
	server *http.Server

	mu     sync.Mutex
	failed error // why the real S3 could not be reached, last
}

// emptyPayload is the SHA-256 of no bytes, the body of every read.
const emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

const (
	relayConns   = 64               // idle connections to the real S3, above what DuckDB opens
	replyTimeout = 30 * time.Second // for the first byte of an answer
	closeTimeout = 2 * time.Second  // for reads under way
)

// openRelay starts a relay on a free port of the loopback.
func openRelay(remote Remote) (*relay, error) {
	endpoint := remote.Endpoint
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	target, err := url.Parse(endpoint)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("S3 endpoint %q: want http://host:port", remote.Endpoint)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("relay to S3: %w", err)
	}
	r := &relay{token: rand.Text(), addr: listener.Addr().String()}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = relayConns
	transport.ResponseHeaderTimeout = replyTimeout
	transport.DisableCompression = true // the bytes pass as they are
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { sign(p.Out, target, remote) },
		Transport:    transport,
		ErrorHandler: r.fail,
		ErrorLog:     log.New(io.Discard, "", 0), // fail has it
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

// sign makes a read one of the real S3, with its keys.
func sign(out *http.Request, target *url.URL, remote Remote) {
	for name := range out.Header {
		if name == "Authorization" || strings.HasPrefix(name, "X-Amz-") {
			out.Header.Del(name)
		}
	}
	out.URL.Scheme, out.URL.Host, out.Host = target.Scheme, target.Host, target.Host
	out.Header.Set("X-Amz-Content-Sha256", emptyPayload)
	*out = *signer.SignV4(*out, remote.AccessKey, remote.SecretKey, "", remote.Region)
}

// fail answers when the real S3 does not.
func (r *relay) fail(w http.ResponseWriter, req *http.Request, err error) {
	if !errors.Is(err, context.Canceled) { // DuckDB hung up
		r.mu.Lock()
		r.failed = err
		r.mu.Unlock()
	}
	w.WriteHeader(http.StatusBadGateway)
}

// trouble returns why the real S3 could not be reached since it was last asked.
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
