package main

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"smelt/inspect"
)

// startCmd brings up the whole demo in the background.
type startCmd struct{}

const (
	// stackTimeout is how long the embedded services may take: the first start
	// may have to download PostgreSQL.
	stackTimeout = 2 * time.Minute
	// firstDataTimeout is how long the first data may take to get to gold.
	firstDataTimeout = 2 * time.Minute
	// A lake that has data already is waited for until it has what is being sent
	// now: fresh is that, and after freshTimeout it need not be.
	fresh        = time.Minute
	freshTimeout = 5 * time.Second
)

// Run starts what is not running yet, and waits until bronze, silver and gold have data.
func (startCmd) Run(ctx context.Context, s *settings, io *streams) error {
	home, err := filepath.Abs(s.Home)
	if err != nil {
		return err
	}
	s.Home = home
	started, err := s.startAll(ctx, io.Err)
	if err != nil {
		return err
	}
	now, err := parseAgain(s) // the stack has written its settings by now
	if err != nil {
		return err
	}
	receipt, err := now.awaitData(ctx, io.Err)
	if err != nil {
		return err
	}
	if !started {
		fmt.Fprintln(io.Out, "smelt already runs.")
	}
	now.welcome(io.Out, receipt)
	return nil
}

// startAll starts the background commands that do not run; started is false
// when all did.
func (s *settings) startAll(ctx context.Context, progress stdio.Writer) (started bool, err error) {
	names := []string{"generate", "run"}
	if s.embedded() {
		names = append([]string{"stack"}, names...)
	}
	for _, name := range names {
		pid, _, err := running(s.Home, name)
		if err != nil {
			return started, err
		}
		var ended <-chan int
		if pid == 0 {
			started = true
			fmt.Fprintf(progress, "starting %s …\n", name)
			if ended, err = s.spawn(name); err != nil {
				return started, err
			}
		}
		wait, cancel := context.WithTimeout(ctx, stackTimeout)
		err = s.awaitReady(wait, name, ended)
		cancel()
		if err != nil {
			return started, err
		}
	}
	return started, nil
}

// embedded says whether the services are the embedded stack's, because no others are set. Settings of other tools
// (AWS_ENDPOINT_URL) do not count.
func (s *settings) embedded() bool {
	for _, flag := range []string{"kafka-brokers", "s3-endpoint", "postgres-dsn"} {
		if o, ok := s.origins[flag]; ok && filepath.Base(o.Name) != stackFile && !strings.HasPrefix(o.Name, "AWS_") {
			return false
		}
		if s.explicit[flag] {
			return false
		}
	}
	return true
}

// awaitData waits until every layer has data, and shows how far it has got.
func (s *settings) awaitData(ctx context.Context, progress stdio.Writer) (inspect.Receipt, error) {
	pipelines, err := s.pipelines()
	if err != nil {
		return inspect.Receipt{}, err
	}
	lake, err := s.openReader(ctx)
	if err != nil {
		return inspect.Receipt{}, err
	}
	defer lake.Close()
	wait, cancel := context.WithTimeout(ctx, firstDataTimeout)
	defer cancel()
	begin, shown := time.Now(), ""
	for {
		receipt, err := inspect.Count(wait, lake.Store, lake.Tables, pipelines[0], time.Now())
		if err != nil && wait.Err() == nil {
			return receipt, err
		}
		ready := receipt.Ready()
		if err == nil && ready.All() && (isFresh(receipt) || time.Since(begin) > freshTimeout) {
			return receipt, nil
		}
		if line := waitingFor(ready); line != shown {
			fmt.Fprintln(progress, line)
			shown = line
		}
		if pid, _, err := running(s.Home, "run"); err != nil || pid == 0 {
			return receipt, errors.Join(s.ended("run", exitBug), err)
		}
		if !pause(wait, 200*time.Millisecond) {
			if ctx.Err() != nil {
				return receipt, context.Cause(ctx)
			}
			return receipt, fmt.Errorf("%s after %s; the end of %s:\n%s", waitingFor(ready), firstDataTimeout, s.logPath("run"), s.tail("run"))
		}
	}
}

func isFresh(r inspect.Receipt) bool {
	return r.FreshSeconds != nil && *r.FreshSeconds < fresh.Seconds()
}

// waitingFor says which layers have data and which is missing.
func waitingFor(r inspect.Ready) string {
	for _, layer := range []struct {
		name string
		has  bool
	}{{"bronze", r.Bronze}, {"silver", r.Silver}, {"gold", r.Gold}} {
		if !layer.has {
			return "waiting for the first data in " + layer.name + " …"
		}
	}
	return "every layer has data; waiting for the newest …"
}

// welcome says where everything is, and what to try next.
func (s *settings) welcome(w stdio.Writer, r inspect.Receipt) {
	places := [][2]string{
		{"Kafka", strings.Join(s.KafkaBrokers, ",")},
		{"S3", s.S3Endpoint + ", bucket " + s.S3Bucket},
	}
	if s.embedded() {
		places = append(places,
			[2]string{"S3 console", fmt.Sprintf("http://127.0.0.1:%d (keys: %s)", s.StackConsolePort, filepath.Join(s.Home, stackFile))},
			[2]string{"PostgreSQL", fmt.Sprintf("127.0.0.1:%d", s.StackPostgresPort)})
	}
	if address, err := s.runAddress(); err == nil { // else it has ended meanwhile
		places = append(places,
			[2]string{"health", "http://" + address + "/readyz?verbose"},
			[2]string{"metrics", "http://" + address + "/metrics"})
	}
	places = append(places,
		[2]string{"logs", filepath.Join(s.Home, "logs")})
	next := [][2]string{
		{"./scripts/query.sh", "a DuckDB shell over bronze, silver and gold"},
		{"./bin/smelt status", "stages, lag, trouble and what to do about it"},
		{"./bin/smelt verify", "recount the whole lake"},
		{"./bin/smelt connect trino", "or spark, pyiceberg, duckdb: how they read this lake"},
	}
	if s.Pipelines == "" {
		next = append(next, [2]string{"./scripts/correct-location.sh", "correct history while the stream runs"})
	}
	next = append(next, [2]string{"./scripts/stop.sh", "stop; start again, and it goes on where it was"})
	fmt.Fprintln(w)
	for _, p := range places {
		fmt.Fprintf(w, "  %-12s%s\n", p[0], p[1])
	}
	query := "SELECT city, hour, readings, avg_temp_c FROM gold ORDER BY hour DESC LIMIT 6"
	if s.Pipelines != "" {
		query = "SELECT * FROM gold LIMIT 6"
	}
	fmt.Fprintf(w, "\nTry next\n  ./scripts/query.sh -c \"%s\"\n", query)
	for _, n := range next {
		fmt.Fprintf(w, "  %-31s%s\n", n[0], n[1])
	}
	fmt.Fprintf(w, "\n%s\nSensor Stream is queryable.\n", r)
}

// stopCmd stops what startCmd has started.
type stopCmd struct{}

// By when the background commands must have ended, from the first request on. A
// pipeline that may drain to its own bound is through in time; when the services
// hang, so that it cannot, it is killed.
const (
	generateBy = 3 * time.Second
	runBy      = 9 * time.Second
	stackBy    = 10 * time.Second
)

// Run stops the generator, then the pipeline, which drains, then the stack.
func (stopCmd) Run(ctx context.Context, s *settings, io *streams) error {
	home, err := filepath.Abs(s.Home)
	if err != nil {
		return err
	}
	s.Home = home
	any := false
	var errs []error
	began := time.Now()
	for _, c := range []struct {
		name string
		by   time.Duration
	}{{"generate", generateBy}, {"run", runBy}, {"stack", stackBy}} {
		stopped, err := s.halt(ctx, c.name, (c.by - time.Since(began)).Round(time.Second/10))
		any = any || stopped
		errs = append(errs, err)
		if stopped && err == nil {
			fmt.Fprintf(io.Err, "stopped %s\n", c.name)
		}
	}
	if !any {
		fmt.Fprintln(io.Err, "nothing runs.")
	}
	return errors.Join(errs...)
}

// remains are what a reset leaves in the state folder: the user's own settings
// and what was downloaded.
var remains = map[string]bool{userFile: true, "extensions": true, "interop": true}

// wipe empties the state folder.
func wipe(home string) error {
	entries, err := os.ReadDir(home)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !remains[e.Name()] {
			if err := os.RemoveAll(filepath.Join(home, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
