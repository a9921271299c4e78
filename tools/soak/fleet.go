package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// instances is how many pipelines run at a time, on one lake.
const instances = 3

const (
	// startPatience bounds how often one that does not come up is started again.
	startPatience = 2 * time.Minute

	// stopPatience bounds a graceful end: smelt drains for eight seconds at most.
	stopPatience = 30 * time.Second

	startAgain = time.Second
	readyPoll  = 50 * time.Millisecond
)

// Exit codes of smelt that say that a service did not answer.
var unavailable = []int{4, 5, 6}

// notDrained is smelt's exit code when it was stopped before all was drained.
const notDrained = 8

// fleet is what runs: the stack, and the pipelines on it.
type fleet struct {
	binary, dir string
	base        []string // the environment, without smelt's settings
	stackEnv    []string
	runHTTP     []string // where each instance tells of itself
	direct      []string // settings that lead to the stack
	wired       []string // and through the wires
	t           *tally

	mu    sync.Mutex
	stack *process
	runs  [instances]*process
}

// policy are the settings that every smelt gets: maintenance has to be due within
// minutes.
var policy = []string{
	"SMELT_KAFKA_TRIM=false", "SMELT_RECORD_MAX=" + strconv.Itoa(recordMax), "SMELT_MEMORY=512MiB", "SMELT_CACHE=512MiB",
	"SMELT_SNAPSHOTS=20", "SMELT_SNAPSHOT_GRACE=2m", "SMELT_SNAPSHOT_HOURLY=4m", "SMELT_SNAPSHOT_DAILY=5m",
	"SMELT_BRONZE_GRACE=5m", "SMELT_FILE_SIZE=1MiB",
}

// cleanEnvironment is this program's environment without smelt's settings and those
// of the tools that it falls back on.
func cleanEnvironment() (env []string) {
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SMELT_") && !strings.HasPrefix(kv, "AWS_") && !strings.HasPrefix(kv, "PG") {
			env = append(env, kv)
		}
	}
	return env
}

// home is the state folder of a named process.
func (f *fleet) home(name string) string { return filepath.Join(f.dir, name) }

// env is the environment of a named process, with settings.
func (f *fleet) env(name string, settings ...string) []string {
	return slices.Concat(f.base, policy, []string{"SMELT_HOME=" + f.home(name), "SMELT_PIPELINES=" + filepath.Join(f.dir, "pipelines")}, settings)
}

func runName(i int) string { return "run" + strconv.Itoa(i+1) }

// startStack starts the stack, again when it could not come up, and returns when it
// is ready.
func (f *fleet) startStack(ctx context.Context) error {
	p, err := f.start(ctx, "stack", func() (*process, error) {
		return spawn("the stack", f.binary, filepath.Join(f.dir, "logs", "stack.log"), f.env("stack", f.stackEnv...), "stack")
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stack = p
	return err
}

// startRun starts an instance, again as long as services do not answer.
func (f *fleet) startRun(ctx context.Context, i int) error {
	p, err := f.start(ctx, runName(i), func() (*process, error) {
		settings := append([]string{"SMELT_HTTP=" + f.runHTTP[i]}, f.wired...)
		return spawn(runName(i), f.binary, filepath.Join(f.dir, "logs", runName(i)+".log"), f.env(runName(i), settings...), "run")
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs[i] = p
	return err
}

// start starts a process until one is ready.
func (f *fleet) start(ctx context.Context, name string, begin func() (*process, error)) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		p, err := begin()
		if err != nil {
			return nil, err
		}
		if f.awaitReady(ctx, name, p) {
			go f.watch(p)
			return p, nil
		}
		if ctx.Err() != nil {
			p.kill()
			return p, fmt.Errorf("%s did not get ready within %s; the end of its log:\n%s", name, startPatience, tail(p.log))
		}
		if !slices.Contains(unavailable, p.code) {
			return p, fmt.Errorf("%s ended with exit code %d instead of getting ready; the end of its log:\n%s", name, p.code, tail(p.log))
		}
		f.t.count(groupOperations, "starts that found a service away", 1)
		sleep(ctx, startAgain)
	}
}

// awaitReady waits until a process says in its state folder that it has got going;
// false: it has ended, or ctx has.
func (f *fleet) awaitReady(ctx context.Context, name string, p *process) bool {
	command := strings.TrimRight(name, "0123456789")
	ready := fmt.Sprintf("%d\nready\n", p.pid) // and then where it answers
	for {
		if text, err := os.ReadFile(filepath.Join(f.home(name), "run", command+".pid")); err == nil && strings.HasPrefix(string(text), ready) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-p.ended:
			return false
		case <-time.After(readyPoll):
		}
	}
}

// watch reports a process that ends without being stopped.
func (f *fleet) watch(p *process) {
	<-p.ended
	if !p.ending.Load() {
		f.t.discrepancy("%s ended unexpectedly, with exit code %d; the end of its log:\n%s", p.name, p.code, tail(p.log))
	}
}

// running are the stack and the instances that live.
func (f *fleet) running() (stack *process, runs []*process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.runs {
		if p != nil && p.alive() {
			runs = append(runs, p)
		}
	}
	if f.stack != nil && f.stack.alive() {
		stack = f.stack
	}
	return stack, runs
}

// process is the stack (-1) or an instance; nil when it does not live.
func (f *fleet) process(i int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.stack
	if i >= 0 {
		p = f.runs[i]
	}
	if p == nil || !p.alive() {
		return nil
	}
	return p
}

// ensure starts what does not run.
func (f *fleet) ensure(ctx context.Context) error {
	if f.process(-1) == nil {
		if err := f.startStack(ctx); err != nil {
			return err
		}
	}
	errs := make([]error, instances)
	var starts sync.WaitGroup
	for i := range instances {
		if f.process(i) == nil {
			starts.Go(func() { errs[i] = f.startRun(ctx, i) })
		}
	}
	starts.Wait()
	return errors.Join(errs...)
}

// close ends all that runs, gently where there is time.
func (f *fleet) close() {
	stack, runs := f.running()
	var stops sync.WaitGroup
	for _, p := range runs {
		stops.Go(func() { p.signal(syscall.SIGCONT); _ = p.stop(stopPatience) })
	}
	stops.Wait()
	if stack != nil {
		stack.signal(syscall.SIGCONT)
		_ = stack.stop(stopPatience)
	}
}

// killPostgres kills the database alone, and leaves the stack that runs it.
func (f *fleet) killPostgres() error {
	stack := f.process(-1)
	if stack == nil {
		return errors.New("the stack does not run")
	}
	text, err := os.ReadFile(filepath.Join(f.home("stack"), "postgres", "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !childOf(pid, stack.pid) {
		return fmt.Errorf("process %q is not a child of the stack", line)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// gold asks the instances how many windows they have written since they started, each
// with what tells its life from the one before.
func (f *fleet) gold(ctx context.Context) map[int]float64 {
	_, runs := f.running()
	out := map[int]float64{}
	for _, p := range runs {
		if n, err := scrape(ctx, f.httpOf(p), `smelt_records_total{table="gold.`); err == nil {
			out[p.pid] = n
		}
	}
	return out
}

// httpOf is where an instance tells of itself.
func (f *fleet) httpOf(p *process) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runHTTP[max(0, slices.Index(f.runs[:], p))]
}

// scrapeTimeout bounds a look at an instance, which may be stopped.
const scrapeTimeout = 500 * time.Millisecond

// scrape adds up the metrics of an instance that begin with a prefix.
func scrape(ctx context.Context, address, prefix string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			_, number, _ := strings.Cut(rest, "} ")
			n, err := strconv.ParseFloat(number, 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, lines.Err()
}

// smelt runs a command to its end, with the state folder "tools".
func (f *fleet) smelt(ctx context.Context, settings []string, patience time.Duration, args ...string) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errHung)
	defer cancel()
	var out, said bytes.Buffer
	cmd := f.command(ctx, settings, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	code, err := endOf(ctx, cmd, cmd.Run())
	f.log(args, code, said.String())
	return outcome{code, out.String(), said.String()}, err
}

// stream runs a command and has its standard output read as it comes.
func (f *fleet) stream(ctx context.Context, settings []string, read func(io.Reader) error, args ...string) error {
	var said bytes.Buffer
	cmd := f.command(ctx, settings, args...)
	cmd.Stderr = &said
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := read(pipe)
	if readErr != nil {
		_ = cmd.Process.Kill()
	}
	if err := cmd.Wait(); readErr == nil && err != nil {
		return fmt.Errorf("smelt %s: %w: %s", args[0], err, said.String())
	}
	return readErr
}

func (f *fleet) command(ctx context.Context, settings []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, f.binary, args...)
	cmd.Env = f.env("tools", settings...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// log keeps what a command has said.
func (f *fleet) log(args []string, code int, said string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out, err := os.OpenFile(filepath.Join(f.dir, "logs", "tools.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return // it is for looking closer only
	}
	defer out.Close()
	fmt.Fprintf(out, "%s %q: exit code %d\n%s", time.Now().UTC().Format(time.RFC3339), args, code, said)
}

// tail is the end of a log.
func tail(path string) string {
	const most = 4000
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
