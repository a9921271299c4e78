package telemetry

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Page is something that a Server shows as JSON.
type Page struct {
	Path string // "/maintenance"
	JSON func() any
}

// Server serves /livez, /readyz and /metrics, and some pages.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// shutdownTimeout is how long requests under way may take at the end.
const shutdownTimeout = time.Second

// Config says where a Server listens, and who may see what.
type Config struct {
	Address string // HOST:PORT
	Token   string // what all but probes have to show; "" on loopback only
	Metrics *Metrics
	Pages   []Page
	Log     *slog.Logger
}

// Serve listens and serves until Close. An error says why it cannot. Where others
// than this machine can reach it a token is needed: what it shows names tables and
// their troubles.
func Serve(c Config) (*Server, error) {
	address, err := net.ResolveTCPAddr("tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics on %s: %w: say HOST:PORT with --http or SMELT_HTTP", c.Address, err)
	}
	if c.Token == "" && !address.IP.IsLoopback() {
		return nil, fmt.Errorf("serve health and metrics on %s: others can reach that address: set SMELT_HTTP_TOKEN to a secret that they have to show, "+
			"or listen on loopback (--http or SMELT_HTTP, %s)", c.Address, net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port)))
	}
	listener, err := net.ListenTCP("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("serve health and metrics on %s: %w: is another smelt running there? choose another address with --http or SMELT_HTTP (127.0.0.1:0 is any free port)", c.Address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics on %s: %w: say HOST:PORT with --http or SMELT_HTTP", c.Address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", c.readyz())
	mux.Handle("GET /metrics", c.guard(promhttp.HandlerFor(c.Metrics.registry, promhttp.HandlerOpts{})))
	for _, p := range c.Pages {
		mux.Handle("GET "+p.Path, c.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(p.JSON()) // the client has closed the connection
		})))
	}
	s := &Server{&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, listener}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("serve health and metrics", "error", err)
		}
	}()
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close stops serving.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	return s.http.Shutdown(ctx)
}

// guard requires the token. Without a token the server is on loopback. A page in a browser on this machine could still send
// requests under another host name, so the name must be this machine's.
func (c Config) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown := []byte(r.Header.Get("Authorization"))
		switch {
		case c.Token == "" && !c.isLocal(r.Host):
			http.Error(w, "ask under 127.0.0.1 or localhost", http.StatusForbidden)
		case c.Token != "" && subtle.ConstantTimeCompare(shown, []byte("Bearer "+c.Token)) != 1:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "show SMELT_HTTP_TOKEN: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isLocal says whether a Host header names this machine for itself: as loopback, or as
// the address does at which it listens.
func (c Config) isLocal(host string) bool {
	ours, _, _ := net.SplitHostPort(c.Address) // it has been resolved
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || strings.EqualFold(host, ours) || net.ParseIP(strings.Trim(host, "[]")).IsLoopback()
}

// readyz is open to probes; how each stage is, which ?verbose tells, is not.
func (c Config) readyz() http.Handler {
	ready := http.HandlerFunc(c.Metrics.readyz)
	verbose := c.guard(ready)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("verbose") {
			verbose.ServeHTTP(w, r)
			return
		}
		ready.ServeHTTP(w, r)
	})
}

// readyz answers 200 when the last step of every stage went well and none has been
// under way for long, else 503; with ?verbose it says how each stage is.
func (m *Metrics) readyz(w http.ResponseWriter, r *http.Request) {
	stages := m.trouble(time.Now())
	var lines []string
	ready := true
	for _, name := range slices.Sorted(maps.Keys(stages)) {
		if err := stages[name]; err != nil {
			ready = false
			lines = append(lines, fmt.Sprintf("[-] %s: %s", name, strings.ReplaceAll(err.Error(), "\n", "; ")))
			continue
		}
		lines = append(lines, "[+] "+name+" ok")
	}
	verdict := "ready"
	if !ready {
		verdict = "not ready"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if r.URL.Query().Has("verbose") {
		fmt.Fprintln(w, strings.Join(lines, "\n"))
	}
	fmt.Fprintln(w, verdict)
}
