package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/telemetry"
)

func TestReadStages(t *testing.T) {
	t.Parallel()
	got := readStages("[+] bronze.x ok\n[-] gold.x_hourly: has not been stepped yet\n[-] silver.x: put a: b; close: c\nnot ready\n")
	want := []stageReady{{"bronze.x", ""}, {"gold.x_hourly", "has not been stepped yet"}, {"silver.x", "put a: b; close: c"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFailing asks a smelt run that has just started, and one of whose stages fails.
func TestFailing(t *testing.T) {
	t.Parallel()
	metrics := telemetry.New()
	server, err := telemetry.Serve(telemetry.Config{Address: "127.0.0.1:0", Metrics: metrics, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	s := &settings{HTTP: server.Address()}
	metrics.Expect("bronze.x", "silver.x")
	if got, err := s.failing(t.Context()); len(got) != 0 || err != nil {
		t.Errorf("before the first steps: got %q and error %v, want nothing wrong", got, err)
	}
	metrics.Observe("silver.x", smelt.Progress{}, time.Second, errors.New("denied"))
	if got, err := s.failing(t.Context()); len(got) != 1 || got["silver.x"] != "denied" || err != nil {
		t.Errorf("got %q and error %v", got, err)
	}
}

// TestAskAnother asks where something else serves than a smelt run.
func TestAskAnother(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	s := &settings{Home: t.TempDir(), HTTP: strings.TrimPrefix(server.URL, "http://")}
	if _, err := s.failing(t.Context()); err == nil || !strings.Contains(err.Error(), "404 Not Found: is something else there than smelt run? say where that is with SMELT_HTTP") {
		t.Errorf("got error %v", err)
	}
}

// TestAskAtFreePort asks a smelt run that listens on a free port.
func TestAskAtFreePort(t *testing.T) {
	t.Parallel()
	s := &settings{Home: t.TempDir(), HTTP: "127.0.0.1:0"}
	if err := s.live(t.Context()); !errors.Is(err, errNobody) || !strings.Contains(err.Error(), s.Home) {
		t.Errorf("while none runs: %v", err)
	}
	server, err := telemetry.Serve(telemetry.Config{Address: s.HTTP, Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	presence, err := daemonize(s.Home, "run")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.live(t.Context()); !errors.Is(err, errNobody) {
		t.Errorf("before it has got going: %v", err)
	}
	if err := presence.ready(server.Address()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.stagesAtWork(t.Context()); err != nil {
		t.Errorf("once it has: %v", err)
	}
	presence.release()
	if err := s.live(t.Context()); !errors.Is(err, errNobody) {
		t.Errorf("after its end: %v", err)
	}
}
