package telemetry_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"smelt"
	"smelt/internal/table"
	"smelt/internal/telemetry"
)

func serve(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	return serveAs(t, telemetry.Config{Address: "127.0.0.1:0", Metrics: m})
}

func serveAs(t *testing.T, c telemetry.Config) string {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	s, err := telemetry.Serve(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Address()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestReady(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	url := serve(t, m)
	if code, body := get(t, url+"/livez"); code != 200 || body != "ok\n" {
		t.Errorf("livez: %d %q", code, body)
	}
	m.Expect("silver.sensors")
	if code, _ := get(t, url+"/readyz"); code != 503 {
		t.Errorf("readyz before the first step: %d, want 503", code)
	}
	m.Observe("silver.sensors", smelt.Progress{Records: 3}, time.Second, nil)
	if code, body := get(t, url+"/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("readyz after a step: %d %q", code, body)
	}
	m.Observe("silver.sensors", smelt.Progress{}, time.Second, errors.New("the store is away"))
	if code, body := get(t, url+"/readyz?verbose"); code != 503 || !strings.Contains(body, "[-] silver.sensors: the store is away") {
		t.Errorf("readyz after a failure: %d %q", code, body)
	}
}

// TestReadyDuringLongSteps has a step hang, as it does when a service is silent.
func TestReadyDuringLongSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.New()
		probe := func() (int, string) {
			w := httptest.NewRecorder()
			m.Readyz(w, httptest.NewRequest("GET", "/readyz?verbose", nil))
			return w.Code, w.Body.String()
		}
		m.Expect("silver.sensors")
		m.Begin("silver.sensors")
		time.Sleep(16 * time.Second)
		if code, body := probe(); code != 503 || !strings.Contains(body, "its step has been under way for 16s") {
			t.Errorf("a first step of 16 s: %d %q", code, body)
		}
		m.Observe("silver.sensors", smelt.Progress{}, time.Second, nil)
		m.Begin("silver.sensors")
		m.Begin("maintain.silver.sensors") // nobody expects it
		time.Sleep(15 * time.Second)
		if code, body := probe(); code != 200 {
			t.Errorf("a step of 15 s: %d %q", code, body)
		}
		time.Sleep(27 * time.Second)
		if code, body := probe(); code != 503 || !strings.Contains(body, "[-] silver.sensors: its step has been under way for 42s") || strings.Contains(body, "maintain") {
			t.Errorf("a step of 42 s: %d %q", code, body)
		}
		m.Observe("silver.sensors", smelt.Progress{}, 42*time.Second, nil)
		time.Sleep(time.Minute)
		if code, body := probe(); code != 200 {
			t.Errorf("after it: %d %q", code, body)
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	m.Expect("gold.sensors_hourly", "silver.sensors")
	m.Observe("silver.sensors", smelt.Progress{}, time.Second, table.ErrConflict)
	m.Observe("silver.sensors", smelt.Progress{Records: 3, Bytes: 700, Repeated: 2}, time.Second, nil)
	m.Partitions("bronze.sensors", 4)
	m.Layer("silver.sensors", telemetry.Layer{Known: true, Lag: 5, LagSeconds: 1.5, Newest: time.Unix(1795953601, 0)})
	m.Quality("sensors", map[string]int64{"missing": 2}, 1)
	m.Stale("sensors", map[string]int64{"locations": 1, "gone": 1})
	m.Stale("sensors", map[string]int64{"locations": 3412, "units": 0})
	_, body := get(t, serve(t, m)+"/metrics")
	for _, want := range []string{
		`smelt_records_total{table="silver.sensors"} 3`,
		`smelt_bytes_total{table="silver.sensors"} 700`,
		`smelt_repeated_names_total{table="silver.sensors"} 2`,
		`smelt_step_failures_total{table="silver.sensors"} 1`,
		`smelt_step_retries_total{table="silver.sensors"} 1`,
		`smelt_commit_conflicts_total{table="silver.sensors"} 1`,
		`smelt_commit_conflicts_total{table="gold.sensors_hourly"} 0`,
		`smelt_partitions{table="bronze.sensors"} 4`,
		`smelt_lag_records{table="silver.sensors"} 5`,
		`smelt_lag_seconds{table="silver.sensors"} 1.5`,
		`smelt_newest_event_timestamp_seconds{table="silver.sensors"} 1.795953601e+09`,
		`smelt_quarantined_records{pipeline="sensors",reason="missing"} 2`,
		`smelt_unmatched_rows{pipeline="sensors"} 1`,
		`smelt_stale_rows{pipeline="sensors",reference="locations"} 3412`,
		`smelt_stale_rows{pipeline="sensors",reference="units"} 0`,
		`smelt_step_duration_seconds_count{table="silver.sensors"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(body, `reference="gone"`) {
		t.Errorf("metrics have what is not known any more:\n%s", body)
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("promlint: %s: %s", p.Metric, p.Text)
	}
}

func TestServeBusy(t *testing.T) {
	t.Parallel()
	url := serve(t, telemetry.New())
	_, err := telemetry.Serve(telemetry.Config{Address: strings.TrimPrefix(url, "http://"), Metrics: telemetry.New()})
	if err == nil || !strings.Contains(err.Error(), "SMELT_HTTP") {
		t.Errorf("busy port: %v, want advice", err)
	}
}

// TestToken asks for each page as probes, as others, and as those who have the
// token.
func TestToken(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	m.Expect("silver.sensors")
	m.Observe("silver.sensors", smelt.Progress{}, time.Second, errors.New("the store is away"))
	pages := []telemetry.Page{{Path: "/maintenance", JSON: func() any { return "due" }}}
	closed := serveAs(t, telemetry.Config{Address: "0.0.0.0:0", Token: "right", Metrics: m, Pages: pages})
	closed = strings.Replace(closed, "[::]", "127.0.0.1", 1)
	local := serveAs(t, telemetry.Config{Address: "localhost:0", Metrics: m, Pages: pages})
	for _, c := range []struct {
		url, path, host, shown string
		want                   int
	}{
		{closed, "/livez", "", "", 200},
		{closed, "/readyz", "", "", 503},
		{closed, "/readyz?verbose", "", "", 401},
		{closed, "/readyz?a&verbose=1", "", "Bearer wrong", 401},
		{closed, "/readyz?verbose", "", "Bearer right", 503},
		{closed, "/metrics", "", "", 401},
		{closed, "/metrics", "", "right", 401},
		{closed, "/metrics", "smelt.test", "Bearer right", 200},
		{closed, "/maintenance", "", "Bearer ", 401},
		{closed, "/maintenance", "", "Bearer right", 200},
		{local, "/metrics", "", "", 200},
		{local, "/metrics", "localhost:8088", "", 200},
		{local, "/metrics", "[::1]:8088", "", 200},
		{local, "/metrics", "page.test:8088", "", 403},
		{local, "/maintenance", "page.test", "", 403},
		{local, "/readyz?verbose", "page.test", "", 403},
		{local, "/readyz", "page.test", "", 503},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = c.host
		if c.shown != "" {
			request.Header.Set("Authorization", c.shown)
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(reply.Body)
		reply.Body.Close()
		if reply.StatusCode != c.want {
			t.Errorf("%s of host %q with %q: %d, want %d", c.path, c.host, c.shown, reply.StatusCode, c.want)
		}
		if (c.want == 401 || c.want == 403 || !strings.Contains(c.path, "verbose")) && c.path != "/metrics" && strings.Contains(string(body), "silver") {
			t.Errorf("%s of host %q with %q tells of a stage: %s", c.path, c.host, c.shown, body)
		}
	}
}

// TestLocalNames has smelt listen at names of loopback.
func TestLocalNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address, host string
		want          bool
	}{
		{"build7:8088", "build7:8088", true}, // which many an /etc/hosts has as 127.0.1.1
		{"build7:8088", "Build7", true},
		{"build7:8088", "127.0.1.1:8088", true},
		{"build7:8088", "page.test:8088", false},
		{"127.0.0.1:8088", "build7:8088", false},
		{"127.0.0.1:8088", "", false},
		{"[::1]:8088", "[::1]:8088", true},
		{"[::1]:8088", "[::1]", true},
	} {
		if got := (telemetry.Config{Address: c.address}).IsLocal(c.host); got != c.want {
			t.Errorf("at %s, asked for as %q: %t, want %t", c.address, c.host, got, c.want)
		}
	}
}

// TestTokenNeeded has others able to reach the address.
func TestTokenNeeded(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:8088"} {
		_, err := telemetry.Serve(telemetry.Config{Address: address, Metrics: telemetry.New()})
		if err == nil || !strings.Contains(err.Error(), "set SMELT_HTTP_TOKEN") {
			t.Errorf("%s: got error %v, want to be told to set SMELT_HTTP_TOKEN", address, err)
		}
	}
}
