package stack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"smelt"
	"smelt/internal/stack"
)

// childHome, when set, makes the test binary run a stack on that folder in
// place of the tests: the S3 server wants a process of its own.
const childHome = "SMELT_TEST_STACK_HOME"

func TestMain(m *testing.M) {
	if home := os.Getenv(childHome); home != "" {
		if err := runChild(home); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild runs a stack until standard input ends or a service does.
func runChild(home string) error {
	stdout := os.Stdout
	os.Stdout = os.Stderr
	s, err := stack.Start(context.Background(), stack.Config{Home: home, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	settings := s.Settings()
	settings["console"] = s.Console()
	if err := json.NewEncoder(stdout).Encode(settings); err != nil {
		return err
	}
	eof := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(eof)
	}()
	select {
	case <-eof:
		return s.Close()
	case err := <-s.Done():
		return errors.Join(err, s.Close())
	}
}

// child is a stack in a process of its own.
type child struct {
	t        *testing.T
	cmd      *exec.Cmd
	stdin    io.Closer
	stderr   *strings.Builder
	settings map[string]string
	waited   bool
}

func startChild(t *testing.T, home string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0]), stderr: new(strings.Builder)}
	c.cmd.Env = append(os.Environ(), childHome+"="+home)
	c.cmd.Stderr = c.stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	t.Cleanup(func() { c.end(syscall.SIGKILL) })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.settings)
	}
	if err != nil {
		c.end(syscall.SIGKILL)
		t.Fatalf("the stack printed %q (%v); its log: %s", line, err, c.stderr)
	}
	return c
}

// end sends a signal, waits for the process and returns how it ended.
func (c *child) end(signal syscall.Signal) error {
	if c.waited {
		return nil
	}
	c.cmd.Process.Signal(signal)
	return c.wait()
}

func (c *child) wait() error {
	c.waited = true
	return c.cmd.Wait()
}

// stop has the stack close and checks that it does so well.
func (c *child) stop() {
	c.t.Helper()
	c.stdin.Close()
	if err := c.wait(); err != nil {
		c.t.Fatalf("stop: %v: %s", err, c.stderr)
	}
}

// newHome is an empty state folder that the database's user can reach.
func newHome(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "home")
}

func TestDataOutlivesStopAndKill(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		metadata string // where the objects' metadata is kept: "" lets the stack choose
	}{
		{"chosen by the stack", ""},
		{"beside the objects", "s3-meta"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := newHome(t)
			if err := os.MkdirAll(filepath.Join(home, tt.metadata), 0o711); err != nil {
				t.Fatal(err)
			}
			outliveStopAndKill(t, home)
		})
	}
}

func outliveStopAndKill(t *testing.T, home string) {
	t.Helper()
	first := startChild(t, home)
	fill(t, first.settings, "one")
	first.stop()

	// A pid file whose process is another's by now must not be in the way.
	pidFile := filepath.Join(home, "postgres", "data", "postmaster.pid")
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	second := startChild(t, home)
	check(t, second.settings, "one")
	for _, name := range []string{"SMELT_S3_SECRET_KEY", "SMELT_S3_ACCESS_KEY"} {
		if second.settings[name] != first.settings[name] {
			t.Errorf("%s changed over a restart", name)
		}
	}
	fill(t, second.settings, "two")
	second.end(syscall.SIGKILL)

	third := startChild(t, home)
	check(t, third.settings, "one", "two")
	third.stop()
}

func TestFolderIsOneStacksOwn(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	c := startChild(t, home)
	for name, want := range map[string]os.FileMode{"secrets.json": 0o600, "kafka": 0o700, "s3": 0o700, "postgres/data": 0o700} {
		info, err := os.Stat(filepath.Join(home, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	for name, err := range map[string]error{"start": startFails(home), "remove": stack.Remove(home)} {
		if !errors.Is(err, smelt.ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(c.cmd.Process.Pid)) {
			t.Errorf("%s: got %v, want smelt.ErrLocked that names process %d", name, err, c.cmd.Process.Pid)
		}
	}
	c.stop()
	if err := os.Remove(filepath.Join(home, "secrets.json")); err != nil {
		t.Fatal(err)
	}
	if err := startFails(home); !strings.Contains(err.Error(), "secrets.json is missing") {
		t.Errorf("without its passwords: got %v", err)
	}
	if err := stack.Remove(home); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(home, "*")); len(left) != 1 || filepath.Base(left[0]) != "stack.lock" {
		t.Errorf("Remove left %v", left)
	}
}

func startFails(home string) error {
	s, err := stack.Start(context.Background(), stack.Config{Home: home})
	if err == nil {
		return fmt.Errorf("started: %w", s.Close())
	}
	return err
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	tests := []struct {
		name string
		cfg  stack.Config
		kind error
	}{
		{"SMELT_KAFKA_PORT", stack.Config{KafkaPort: port}, smelt.ErrSource},
		{"SMELT_S3_PORT", stack.Config{S3Port: port}, smelt.ErrStore},
		{"SMELT_CONSOLE_PORT", stack.Config{ConsolePort: port}, smelt.ErrStore},
		{"SMELT_POSTGRES_PORT", stack.Config{PostgresPort: port}, smelt.ErrDatabase},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Home = newHome(t)
			_, err := stack.Start(t.Context(), tt.cfg)
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), strconv.Itoa(port)) || !strings.Contains(err.Error(), tt.name) {
				t.Errorf("got %v, want a %v that names port %d and %s", err, tt.kind, port, tt.name)
			}
			if made, _ := filepath.Glob(filepath.Join(tt.cfg.Home, "*")); len(made) != 1 { // the lock
				t.Errorf("it made %v", made)
			}
		})
	}
}

// TestDatabaseThatDiesIsStartedAgain kills the server alone, twice: the second time it
// has hardly come up.
func TestDatabaseThatDiesIsStartedAgain(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	c := startChild(t, home)
	fill(t, c.settings, "one")
	for range 2 {
		killed := serverProcess(t, home)
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitServer(t, home, killed, c.settings["SMELT_POSTGRES_DSN"])
	}
	check(t, c.settings, "one")
	c.stop()
	if got := strings.Count(c.stderr.String(), "PostgreSQL has died and is restarted"); got < 2 {
		t.Errorf("it was told %d times that the database had ended, want 2, or more where it did not come up at once: %s", got, c.stderr)
	}
}

// TestDatabaseThatCannotBeStartedAgain takes the database away before it kills the
// server.
func TestDatabaseThatCannotBeStartedAgain(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	c := startChild(t, home)
	pid := serverProcess(t, home)
	version := filepath.Join(home, "postgres", "data", "PG_VERSION")
	if err := os.WriteFile(version, []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := c.wait(); err == nil {
		t.Error("the stack ended well, want the database's end reported")
	}
	if !strings.Contains(c.stderr.String(), "PostgreSQL ended: ") || !strings.Contains(c.stderr.String(), "It was started again") {
		t.Errorf("the stack said %q", c.stderr)
	}
}

// serverProcess is the id of the database's process.
func serverProcess(t *testing.T, home string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// awaitServer waits until another process than one serves the database.
func awaitServer(t *testing.T, home string, killed int, dsn string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		text, err := os.ReadFile(filepath.Join(home, "postgres", "data", "postmaster.pid"))
		if err == nil && !strings.HasPrefix(string(text), strconv.Itoa(killed)+"\n") {
			if conn, err := pgx.Connect(ctx, dsn); err == nil {
				conn.Close(ctx)
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatal("the database does not come back")
}

// TestFolderOutOfReach has root keep its state where the database's user cannot
// go, as under /root.
func TestFolderOutOfReach(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("PostgreSQL runs as the same user unless that is root")
	}
	home := newHome(t)
	if err := os.Chmod(filepath.Dir(home), 0o700); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, home)
	t.Cleanup(func() { stack.Remove(home) })
	target, err := os.Readlink(filepath.Join(home, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c.settings, "one")
	c.stop()
	c = startChild(t, home)
	check(t, c.settings, "one")
	c.stop()
	if err := stack.Remove(home); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Remove left %s: %v", target, err)
	}
}
