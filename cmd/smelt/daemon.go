package main

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

	"smelt"
	"smelt/internal/disk"
)

// Long-running commands hold a lock on a file in the state folder for as long
// as they live. So whether one runs is never a guess from a process id that may
// be another's by now, and no two run on one folder.

// presence is a running command's file.
type presence struct {
	file *os.File
	home string // the state folder
}

// readyMark follows the process id once the command has got going.
const readyMark = "ready"

func presencePath(home, name string) string { return filepath.Join(home, "run", name+".pid") }

// daemonize notes that this process runs a command.
func daemonize(home, name string) (*presence, error) {
	path := presencePath(home, name)
	if err := makeFolders(home, filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, usageError{disk.Explain(err, home)}
	}
	if err := lockSoon(f); err != nil {
		f.Close()
		text := fmt.Sprintf("smelt %s already runs on the state folder %s: stop it with ./scripts/stop.sh, or choose another folder with SMELT_HOME", name, home)
		if name == "run" {
			text += ", and another address with SMELT_HTTP (127.0.0.1:0 is any free port): several may run on one lake"
		}
		return nil, usageError{errors.New(text)}
	}
	p := &presence{f, home}
	return p, p.write(strconv.Itoa(os.Getpid()) + "\n")
}

// makeFolders makes the state folder, through which PostgreSQL's own user has to
// get, and one in it, which is the owner's alone.
func makeFolders(home, folder string) error {
	err := os.MkdirAll(home, 0o711)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return usageError{disk.Explain(err, home)}
	}
	return nil
}

// lockSoon locks a file. It tries a few times, because a process that checks whether the command runs also holds the lock for
// an instant.
func lockSoon(f *os.File) (err error) {
	for range 10 {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return nil
		}
		time.Sleep(readyPoll / 5)
	}
	return err
}

// ready notes that the command has got going, and where it answers, if it does.
func (p *presence) ready(address string) error {
	return p.write(fmt.Sprintf("%d\n%s\n%s\n", os.Getpid(), readyMark, address))
}

func (p *presence) write(text string) error {
	err := p.file.Truncate(0)
	if err == nil {
		_, err = p.file.WriteAt([]byte(text), 0)
	}
	if err != nil {
		return usageError{disk.Explain(err, p.home)}
	}
	return nil
}

// release notes that the command has ended. The file stays: to remove it would
// be a race with the next one.
func (p *presence) release() {
	_ = p.write("")
	p.file.Close()
}

// found is a command that runs.
type found struct {
	pid     int // 0: it does not run
	ready   bool
	address string // where it answers, once it is ready; "" of one that does not
}

// running looks a command up: its process id, 0 when it does not run.
func running(home, name string) (pid int, ready bool, err error) {
	f, err := find(home, name)
	return f.pid, f.ready, err
}

// find looks a command up.
func find(home, name string) (found, error) {
	f, err := os.Open(presencePath(home, name))
	if errors.Is(err, fs.ErrNotExist) {
		return found{}, nil
	}
	if err != nil {
		return found{}, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return found{}, nil // it is free
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		return found{}, err
	}
	lines := append(strings.Split(string(text), "\n"), "", "")
	pid, err := strconv.Atoi(lines[0])
	if err != nil {
		return found{}, nil // it has just begun, or is just ending
	}
	return found{pid, lines[1] == readyMark, lines[2]}, nil
}

// spawn starts a command of this binary in the background, with its output in a
// log file. ended gives its exit code when it has ended while this process still
// lives.
func (s *settings) spawn(name string, args ...string) (ended <-chan int, err error) {
	path := s.logPath(name)
	if err := makeFolders(s.Home, filepath.Dir(path)); err != nil {
		return nil, err
	}
	log, err := openLog(path)
	if err != nil {
		return nil, usageError{disk.Explain(err, s.Home)}
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{name}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(append(os.Environ(), s.environment...), "SMELT_HOME="+s.Home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C in the terminal is not for it
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start smelt %s: %w", name, err)
	}
	gone := make(chan int, 1)
	go func() {
		_ = cmd.Wait() // the exit code says how it ended
		gone <- cmd.ProcessState.ExitCode()
	}()
	return gone, nil
}

func (s *settings) logPath(name string) string {
	return filepath.Join(s.Home, "logs", name+".log")
}

// awaitReady waits until a command has got going. ended, which may be nil, says
// that it has ended before.
func (s *settings) awaitReady(ctx context.Context, name string, ended <-chan int) error {
	for {
		if _, ready, err := running(s.Home, name); ready || err != nil {
			return err
		}
		select {
		case code := <-ended:
			if pid, _, _ := running(s.Home, name); pid != 0 {
				ended = nil // somebody else has started it at the same time, and was quicker
				continue
			}
			return s.ended(name, code)
		case <-ctx.Done():
			return fmt.Errorf("smelt %s did not get ready in time; the end of %s:\n%s", name, s.logPath(name), s.tail(name))
		case <-time.After(readyPoll):
		}
	}
}

// readyPoll is how often a file in the state folder is looked at.
const readyPoll = 50 * time.Millisecond

// ended reports that a command has ended, and how, with the kind of its exit code.
func (s *settings) ended(name string, code int) error {
	err := fmt.Errorf("smelt %s has ended; the end of %s:\n%s", name, s.logPath(name), s.tail(name))
	switch code {
	case exitUsage:
		return usageError{err}
	case exitPipeline:
		return smelt.Mark(smelt.ErrPipeline, err)
	case exitSource:
		return smelt.Mark(smelt.ErrSource, err)
	case exitStore:
		return smelt.Mark(smelt.ErrStore, err)
	case exitDatabase:
		return smelt.Mark(smelt.ErrDatabase, err)
	}
	return err
}

// tail is the end of a command's log.
func (s *settings) tail(name string) string {
	const lines = 12
	text, err := os.ReadFile(s.logPath(name))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// halt stops a command: asks it to, and ends it when it has not within the time.
func (s *settings) halt(ctx context.Context, name string, patience time.Duration) (stopped bool, err error) {
	pid, _, err := running(s.Home, name)
	if err != nil || pid == 0 {
		return false, err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, fmt.Errorf("stop smelt %s (process %d): %w", name, pid, err)
	}
	deadline, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if now, _, err := running(s.Home, name); err != nil || now != pid {
			return true, err
		}
		if !pause(deadline, 20*time.Millisecond) {
			break
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, err
	}
	return true, fmt.Errorf("smelt %s did not stop within %s and was killed; nothing is lost, and it goes on from what is durable", name, patience)
}

// pause waits, or returns false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
