package main

import (
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// s3Wire is an HTTP proxy before the S3 server. It passes the requests on as they
// are, the name of the host among it, which is signed.
type s3Wire struct {
	wire
	forward *httputil.ReverseProxy
	server  *http.Server
	t       *tally
}

// hitShare is how many of a hundred requests a fault hits that does not hit all.
const hitShare = 20

// mostLatency is the longest that a request or a piece of a stream is held up.
const mostLatency = 1500 * time.Millisecond

// openS3Wire listens at an address for a server at another.
func openS3Wire(address, target string, t *tally) (*s3Wire, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	w := &s3Wire{wire: wire{name: "S3", faults: []fault{faultLatency, faultReset, faultHole, faultBusy, faultLost, faultTorn}}, t: t}
	w.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: target})
			r.Out.Host = r.In.Host
		},
		Transport:    &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, _ error) { hangUp(rw) },
		ErrorLog:     log.New(io.Discard, "", 0), // a closed client connection is not worth a message
	}
	w.server = &http.Server{Handler: w, ErrorLog: w.forward.ErrorLog}
	go func() { _ = w.server.Serve(listener) }() // it ends with Close
	return w, nil
}

func (w *s3Wire) close() { _ = w.server.Close() }

// ServeHTTP passes a request on, or does to it what the weather says.
func (w *s3Wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s := w.now()
	hit := rand.IntN(100) < hitShare
	writes := r.Method == http.MethodPut || r.Method == http.MethodPost || r.Method == http.MethodDelete
	switch {
	case s.fault == faultLatency:
		select {
		case <-r.Context().Done():
			return
		case <-time.After(rand.N(mostLatency)):
		}
	case s.fault == faultHole:
		select {
		case <-r.Context().Done():
		case <-s.over:
		}
		hangUp(rw)
		return
	case s.fault == faultReset && hit:
		hangUp(rw)
		return
	case s.fault == faultBusy && hit:
		busy(rw)
		return
	case s.fault == faultLost && hit && writes:
		w.t.count(groupLost, "S3: of writes", 1)
		w.forward.ServeHTTP(&nowhereWriter{header: http.Header{}}, r)
		hangUp(rw)
		return
	case s.fault == faultTorn && hit && r.Method == http.MethodGet:
		w.forward.ServeHTTP(&tornWriter{ResponseWriter: rw, left: rand.IntN(2000)}, r)
		return
	}
	w.forward.ServeHTTP(rw, r)
}

// busy answers as a server that has too much to do.
func busy(rw http.ResponseWriter) {
	status, code := http.StatusServiceUnavailable, "SlowDown"
	if rand.IntN(2) == 0 {
		status, code = http.StatusTooManyRequests, "TooManyRequests"
	}
	rw.Header().Set("Content-Type", "application/xml")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, "<?xml version=\"1.0\"?><Error><Code>"+code+"</Code><Message>Please reduce your request rate.</Message></Error>")
}

// hangUp resets the connection of a request.
func hangUp(rw http.ResponseWriter) {
	hijacker, ok := rw.(http.Hijacker)
	if !ok {
		return // its reply goes nowhere
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server hangs up
	}
	reset(conn)
}

// reset closes a connection without a good-bye.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // then Close sends a reset
	}
	_ = conn.Close()
}

// nowhereWriter takes a reply that is not to arrive.
type nowhereWriter struct{ header http.Header }

func (w *nowhereWriter) Header() http.Header         { return w.header }
func (w *nowhereWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *nowhereWriter) WriteHeader(int)             {}

// tornWriter hangs up in the middle of a reply.
type tornWriter struct {
	http.ResponseWriter
	left int // bytes until then
}

func (w *tornWriter) Write(p []byte) (int, error) {
	if len(p) <= w.left {
		w.left -= len(p)
		return w.ResponseWriter.Write(p)
	}
	_, _ = w.ResponseWriter.Write(p[:w.left])
	_ = http.NewResponseController(w.ResponseWriter).Flush() // or nothing of it would arrive
	panic(http.ErrAbortHandler)                              // the server hangs up
}
