package wiretest_test

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
	"testing"

	"smelt/internal/stack"
)

// childHome, when set, makes the test binary run a stack on that folder in
// place of the tests: its S3 server wants a process of its own.
const childHome = "SMELT_TEST_WIRE_HOME"

// services are the settings of the stack of this test run.
var services map[string]string

func TestMain(m *testing.M) {
	if home := os.Getenv(childHome); home != "" {
		if err := runChild(home); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code, err := runWithStack(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		code = 1
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

func runWithStack(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "wire-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // the database's user has to pass
		return 0, err
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childHome+"="+filepath.Join(dir, "home"))
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		return 0, err
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := child.Start(); err != nil {
		return 0, err
	}
	defer func() {
		stdin.Close()
		err = errors.Join(err, child.Wait())
	}()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return 0, fmt.Errorf("it printed %q: %w", line, err)
	}
	if err := json.Unmarshal(line, &services); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
