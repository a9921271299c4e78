package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// user and database are the names inside PostgreSQL: the lake's owner and the
// database of its catalog and references.
const (
	user     = "smelt"
	database = "smelt"
)

const (
	// postgresReadyTimeout leaves room for recovery after a kill.
	postgresReadyTimeout = time.Minute

	// fastStopTimeout is for PostgreSQL's fast shutdown, which writes its
	// buffers out; after it comes the immediate one, with recovery at the next
	// start, and after crashStopTimeout the kill.
	fastStopTimeout  = 5 * time.Second
	crashStopTimeout = 2 * time.Second

	logTail = 2000 // bytes of the server's log that an error shows
)

// postgres is a PostgreSQL server that lives and dies with this process. The
// err of one that has ended says how.
type postgres struct {
	process *os.Process
	ended   chan struct{}
	err     error
	log     string // the file that it logs to
}

// dsn is how clients reach the server.
func dsn(port int, password string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     address(port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// startPostgres runs the server over the database in home, which it makes at
// the first start, and returns when a client can log in. It never deletes a
// database.
func startPostgres(ctx context.Context, home string, port int, password string, log *slog.Logger) (*postgres, error) {
	acct, err := serverAccount(filepath.Join(home, "data"))
	if err != nil {
		return nil, err
	}
	root, err := serverFolder(home, acct)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(root, "data")
	bin, err := findBinaries(ctx, root, data, acct, log)
	if err != nil {
		return nil, err
	}
	if err := initDatabase(ctx, bin, data, password, acct); err != nil {
		return nil, err
	}
	if err := endLeftover(ctx, data); err != nil {
		return nil, err
	}
	p, err := runServer(bin, data, filepath.Join(root, "postgres.log"), port, acct)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, address(port), password); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// runServer starts the server, apart from the terminal's signals, which are for
// the stack to act upon.
func runServer(bin, data, log string, port int, acct *account) (*postgres, error) {
	// To be added to: it may be emptied while the server runs; see putAside.
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data,
		"-c", "listen_addresses="+loopback,
		"-c", "port="+strconv.Itoa(port),
		"-c", "unix_socket_directories=",
		"-c", "log_checkpoints=off",
	)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = filepath.Dir(data)
	cmd.Env = serverEnvironment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: acct.credential()}
	dieWithParent(cmd.SysProcAttr)

	p := &postgres{ended: make(chan struct{}), log: log}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// The kernel ties the server's life to the thread that started it, so
		// this one stays until the server has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.process = cmd.Process
		started <- err
		if err == nil {
			p.err = p.explain(cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	return p, nil
}

// serverEnvironment is this process's environment without the settings that
// PostgreSQL's own programs would take from it.
func serverEnvironment() []string {
	env := []string{"LC_ALL=C"}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "LC_") && !strings.HasPrefix(kv, "LANG") {
			env = append(env, kv)
		}
	}
	return env
}

// explain says why the server ended: how it exited, and its last words.
func (p *postgres) explain(err error) error {
	if err == nil {
		err = errors.New("stopped")
	}
	text, readErr := os.ReadFile(p.log)
	if readErr != nil {
		return err
	}
	text = text[max(0, len(text)-logTail):]
	return fmt.Errorf("%w; its log %s ends:\n%s", err, p.log, strings.TrimSpace(string(text)))
}

// ready waits until a client can log in.
func (p *postgres) ready(ctx context.Context, addr, password string) error {
	ctx, cancel := context.WithTimeout(ctx, postgresReadyTimeout)
	defer cancel()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		err := login(ctx, addr, password)
		if err == nil {
			return nil
		}
		if errors.Is(err, errRefused) {
			return err
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return p.err
		case <-ctx.Done():
			return fmt.Errorf("log in at %s: %w", addr, err)
		}
	}
}

// stop ends the server, gently at first.
func (p *postgres) stop() error {
	for _, try := range []struct {
		signal  syscall.Signal
		timeout time.Duration
	}{
		{syscall.SIGINT, fastStopTimeout},
		{syscall.SIGQUIT, crashStopTimeout},
		{syscall.SIGKILL, crashStopTimeout},
	} {
		// An error means that it has ended already.
		_ = p.process.Signal(try.signal)
		select {
		case <-p.ended:
			return nil
		case <-time.After(try.timeout):
		}
	}
	return fmt.Errorf("stop PostgreSQL: process %d does not end", p.process.Pid)
}
