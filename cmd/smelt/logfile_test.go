package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	testLogMax  = 4 << 10
	testLogKeep = 3
)

// logger is a command that logs to its standard error from several goroutines and then panics. On request it logs without end.
func logger() {
	w := keepLog(os.Args[1], os.Stderr)
	file, ok := w.(*logFile)
	if !ok {
		fmt.Println("the log is not its own")
		os.Exit(1)
	}
	file.max = testLogMax
	log := slog.New(slog.NewJSONHandler(file, nil))
	if os.Args[2] == "forever" {
		for n := 0; ; n++ {
			log.Info("line", "n", n)
		}
	}
	var writers sync.WaitGroup
	for g := range 4 {
		writers.Go(func() {
			for n := range 25 {
				log.Info("line", "g", g, "n", n)
			}
		})
	}
	writers.Wait()
	fmt.Println("a library prints")
	panic("boom")
}

// startLogger starts one, over a log that is there or not.
func startLogger(t *testing.T, path, how string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(self, path, how)
	cmd.Args[0] = "logger"
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// logs reads the logs, the oldest first.
func logs(t *testing.T, path string) (all string, files int) {
	t.Helper()
	for n := testLogKeep + 1; n >= 0; n-- {
		name := path
		if n > 0 {
			name = fmt.Sprintf("%s.%d", path, n)
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		files++
		all += string(text)
	}
	return all, files
}

func TestLogIsPutAside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.log")
	cmd := startLogger(t, path, "once")
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 2 {
		t.Fatalf("got %v, want a panic", err)
	}
	newest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(newest), "a library prints\npanic: boom\n") || !strings.Contains(string(newest), "goroutine 1 [running]") {
		t.Errorf("the newest log has neither what others print nor the panic:\n%s", newest)
	}
	all, files := logs(t, path)
	if files < 2 || files > testLogKeep+1 {
		t.Errorf("%d logs, want 2 to %d", files, testLogKeep+1)
	}
	next := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\{"time":"[^"]+","level":"INFO","msg":"line","g":(\d),"n":(\d+)\}$`).FindAllStringSubmatch(all, -1) {
		if m[2] != fmt.Sprint(next[m[1]]) {
			t.Errorf("writer %s: line %s, want %d", m[1], m[2], next[m[1]])
		}
		next[m[1]]++
	}
	for g := range 4 {
		if next[fmt.Sprint(g)] != 25 {
			t.Errorf("writer %d: %d whole lines, want 25", g, next[fmt.Sprint(g)])
		}
	}
}

// A process that is killed leaves whole lines, but for the last, and the next one
// goes on.
func TestLogOutlivesAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.log")
	for round := range 3 {
		cmd := startLogger(t, path, "forever")
		for { // until the logs have gone round
			if _, files := logs(t, path); files == testLogKeep+1 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		for n := range testLogKeep + 1 {
			info, err := os.Stat(fmt.Sprintf("%s.%d", path, n+1))
			switch {
			case n == testLogKeep && err == nil:
				t.Errorf("round %d: there is a log %d", round, n+1)
			case err == nil && info.Size() > testLogMax:
				t.Errorf("round %d: log %d has %d bytes, want %d at most", round, n+1, info.Size(), testLogMax)
			}
		}
		all, _ := logs(t, path)
		lines := bufio.NewScanner(strings.NewReader(all))
		torn := 0
		for lines.Scan() {
			if text := lines.Text(); !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
				torn++
			}
		}
		if torn > round+1 { // the last of each killed process, at the most
			t.Errorf("round %d: %d lines are torn", round, torn)
		}
	}
}

func TestLogOfOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w := keepLog(path, os.Stderr); w != os.Stderr {
		t.Errorf("got %T for a log that is not this process's", w)
	}
}
