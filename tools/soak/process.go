package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// process is a running smelt, in the background.
type process struct {
	name   string
	pid    int
	began  time.Time
	log    string // the file that it logs to
	ended  chan struct{}
	code   int         // the exit code of one that has ended; -1 for a signal
	ending atomic.Bool // it is being stopped
}

// spawn starts smelt with arguments and an environment. What it says is added to a
// log file. It ends with this program, however that ends.
func spawn(name, binary, log string, env []string, args ...string) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program to act upon
	dieWithParent(cmd.SysProcAttr)
	p := &process{name: name, log: log, began: time.Now(), ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// The kernel ties the process's life to the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit code says how it ended
			p.code = cmd.ProcessState.ExitCode()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// alive says whether the process has not ended yet.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal to a process that lives.
func (p *process) signal(s syscall.Signal) {
	if p.alive() { // it is not reaped before that is closed, so the id is still its own
		_ = syscall.Kill(p.pid, s)
	}
}

// kill ends the process at once.
func (p *process) kill() {
	p.ending.Store(true)
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// stop asks the process to end, and kills it when it has not in time.
func (p *process) stop(patience time.Duration) error {
	p.ending.Store(true)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.name, patience)
	}
}

// outcome is what a command of smelt gave.
type outcome struct {
	code int
	out  string
	err  string // what it said on standard error
}

// errHung is the cause of a command's end that took too long.
var errHung = errors.New("it took too long")

// endOf is how a command ended.
func endOf(ctx context.Context, cmd *exec.Cmd, err error) (code int, cause error) {
	exit := new(exec.ExitError)
	switch {
	case errors.Is(context.Cause(ctx), errHung):
		return -1, errHung
	case ctx.Err() != nil:
		return -1, ctx.Err()
	case errors.As(err, &exit):
		return cmd.ProcessState.ExitCode(), nil
	}
	return 0, err
}
