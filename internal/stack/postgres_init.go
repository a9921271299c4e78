package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// leftoverTimeout is for the server of a stack that was killed to finish its
// shutdown.
const leftoverTimeout = 30 * time.Second

// initDatabase makes the database in data, unless there is one. It is made
// beside and moved into place when it is whole, so a kill on the way leaves
// nothing that looks like a database.
func initDatabase(ctx context.Context, bin, data, password string, acct *account) error {
	_, err := os.Stat(data)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := data + ".new" // it may hold an unfinished earlier attempt
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	if err := acct.mkdir(fresh); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	passwordFile := fresh + ".password"
	defer os.Remove(passwordFile)
	if err := errors.Join(os.WriteFile(passwordFile, []byte(password), 0o600), acct.own(passwordFile)); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	err = runTool(ctx, acct, "", filepath.Join(bin, "initdb"),
		"-D", fresh, "-U", user, "--locale=C", "--encoding=UTF8", "-A", "scram-sha-256", "--pwfile", passwordFile)
	if err != nil {
		return err
	}
	err = runTool(ctx, acct, "CREATE DATABASE "+database+"\n", filepath.Join(bin, "postgres"), "--single", "-D", fresh, "postgres")
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	return nil
}

// runTool runs one of PostgreSQL's programs to its end.
func runTool(ctx context.Context, acct *account, stdin, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Dir = "/" // the server's user may not be able to read where we are
	cmd.Env = serverEnvironment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: acct.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// endLeftover makes way for a new server over data. After a kill of the stack the old server may still be stopping. Its
// pid file may also name a process that now belongs to something else, which would keep the new server from
// starting.
func endLeftover(ctx context.Context, data string) error {
	path := filepath.Join(data, "postmaster.pid")
	pid, err := readPID(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the old server: %w", err)
	}
	if pid == 0 || !servesFolder(pid, data) {
		// A writer of a new pid file would need the stack's lock, which is ours.
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the old server's pid file: %w", err)
		}
		return nil
	}
	// The folder is still in use by a server whose stack has died. An error means that the server has ended, too.
	_ = syscall.Kill(pid, syscall.SIGINT)
	ctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for servesFolder(pid, data) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the old PostgreSQL server (process %d) still runs on %s: stop it", pid, data)
		}
	}
	return nil
}

// readPID reads the process's id from a server's pid file; 0 when there is
// none in it.
func readPID(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid < 0 {
		return 0, nil // cut short by a crash, as an empty file is
	}
	return pid, nil
}
