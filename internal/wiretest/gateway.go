package wiretest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Answer may answer a request in the service's place: then it returns true, or
// panics with http.ErrAbortHandler, which breaks the connection. Pass has the
// service carry the request out, and gives its reply, whole.
type Answer func(w http.ResponseWriter, r *http.Request, pass func() *httptest.ResponseRecorder) bool

// Gateway is a wire to a service that speaks HTTP.
type Gateway struct {
	server *httptest.Server
	answer atomic.Pointer[Answer]
	hits   atomic.Int64
}

// NewGateway opens a wire to the service at target, host:port. It is in order,
// and closed when the test ends.
func NewGateway(t testing.TB, target string) *Gateway {
	t.Helper()
	g := new(Gateway)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: target})
			r.Out.Host = r.In.Host // which the request's signature covers
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // the service or the client has closed the connection
	}
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pass := func() *httptest.ResponseRecorder {
			reply := httptest.NewRecorder()
			proxy.ServeHTTP(reply, r)
			g.hits.Add(1)
			return reply
		}
		if answer := g.answer.Load(); answer != nil && (*answer)(w, r, pass) {
			g.hits.Add(1)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(g.server.Close)
	return g
}

// Address is where the wire begins, host:port.
func (g *Gateway) Address() string { return g.server.Listener.Addr().String() }

// Set has requests answered by a from now on; Set(nil) lets all of them pass.
func (g *Gateway) Set(a Answer) {
	if a == nil {
		g.answer.Store(nil)
		return
	}
	g.answer.Store(&a)
}

// Hits is how many requests an answer has taken over.
func (g *Gateway) Hits() int64 { return g.hits.Load() }

// Refuse answers every request with an error of S3's: a status, a code, and, when
// it is not zero, how long to wait, in whole seconds.
func Refuse(status int, code string, after time.Duration) Answer {
	return func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) bool {
		if after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(after.Seconds())))
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>so it is</Message></Error>", code)
		return true
	}
}

// LoseReply has the requests that match carried out, and their replies lost: the
// connection breaks.
func LoseReply(match func(*http.Request) bool) Answer {
	return func(w http.ResponseWriter, r *http.Request, pass func() *httptest.ResponseRecorder) bool {
		if !match(r) {
			return false
		}
		pass()
		panic(http.ErrAbortHandler)
	}
}

// CutBody breaks the connection in the middle of the body of the replies to the
// requests that match.
func CutBody(match func(*http.Request) bool) Answer {
	return func(w http.ResponseWriter, r *http.Request, pass func() *httptest.ResponseRecorder) bool {
		if !match(r) {
			return false
		}
		half(w, pass())
		panic(http.ErrAbortHandler)
	}
}

// StallBody stops in the middle of the body of replies to matching requests, until the client closes the connection.
func StallBody(match func(*http.Request) bool) Answer {
	return func(w http.ResponseWriter, r *http.Request, pass func() *httptest.ResponseRecorder) bool {
		if !match(r) {
			return false
		}
		half(w, pass())
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
}

// half writes a reply but for the second half of its body.
func half(w http.ResponseWriter, reply *httptest.ResponseRecorder) {
	body := reply.Body.Bytes()
	for name, values := range reply.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(reply.Code)
	_, _ = w.Write(body[:len(body)/2]) // the client may have closed the connection
	_ = http.NewResponseController(w).Flush()
}
