// Package stacktest gives the tests of a package the embedded services, in a process
// of their own: the S3 server changes the working folder and prints.
package stacktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"smelt/internal/stack"
)

// childHome, when set, makes the test binary run a stack on that folder in place of
// the tests.
const childHome = "SMELT_TEST_STACK_HOME"

// Main is the TestMain of a package whose tests ask for [Settings]. It does not return.
func Main(m *testing.M) {
	if home := os.Getenv(childHome); home != "" {
		if err := runChild(home); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// runChild runs a stack until standard input ends or a service does.
func runChild(home string) error {
	stdout := os.Stdout
	os.Stdout = os.Stderr
	s, err := stack.Start(context.Background(), stack.Config{Home: home})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(s.Settings()); err != nil {
		return errors.Join(err, s.Close())
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

// Settings are those of the stack that all tests of the package share, which the first
// to ask starts.
func Settings(t testing.TB) map[string]string {
	t.Helper()
	shared.once.Do(func() { shared.err = shared.start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.settings
}

var shared services

// services are a stack in a process of its own.
type services struct {
	once     sync.Once
	err      error
	dir      string
	child    *exec.Cmd // nil: it was not started
	stdin    io.Closer
	settings map[string]string
}

func (s *services) start() (err error) {
	if s.dir, err = os.MkdirTemp("", "smelt-test-"); err != nil {
		return err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil { // the database's user has to get through
		return err
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childHome+"="+filepath.Join(s.dir, "home"))
	var stderr strings.Builder
	child.Stderr = &stderr
	stdout, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if s.stdin, err = child.StdinPipe(); err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	s.child = child
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.settings)
	}
	if err != nil {
		return fmt.Errorf("the stack printed %q (%w); its log: %s", line, err, &stderr)
	}
	return nil
}

func (s *services) close() (err error) {
	if s.child != nil {
		s.stdin.Close()
		err = s.child.Wait()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
