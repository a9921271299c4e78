package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
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

// Serve listens on an address and serves until Close. An error says that it
// cannot listen there.
func Serve(address string, m *Metrics, log *slog.Logger, pages ...Page) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("serve health and metrics on %s: %w: is another smelt running there? choose another address with --http or SMELT_HTTP", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics on %s: %w: say HOST:PORT with --http or SMELT_HTTP", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", m.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	for _, p := range pages {
		mux.HandleFunc("GET "+p.Path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(p.JSON()) // who asked has gone
		})
	}
	s := &Server{&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, listener}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serve health and metrics", "error", err)
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

// readyz answers 200 when the last step of every stage went well, else 503;
// with ?verbose it says how each stage is.
func (m *Metrics) readyz(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	stages := maps.Clone(m.stages)
	m.mu.Unlock()
	var lines []string
	ready := true
	for _, name := range slices.Sorted(maps.Keys(stages)) {
		if err := stages[name]; err != nil {
			ready = false
			lines = append(lines, fmt.Sprintf("[-] %s: %v", name, err))
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
