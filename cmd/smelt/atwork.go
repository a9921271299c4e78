package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// refuseAtWork refuses to drop what a `smelt run` keeps: it would make it anew at
// once.
func (s *settings) refuseAtWork(ctx context.Context, d dropping) error {
	stages, at, err := s.stagesAtWork(ctx)
	if err != nil {
		return err
	}
	for _, name := range append(slices.Clone(d.tables), "bronze."+d.pipeline) {
		if slices.Contains(stages, name) {
			return usagef("smelt run works on %s: %s, drop then, and start it again with ./scripts/start.sh or smelt run", name, at)
		}
	}
	return nil
}

// stagesAtWork asks the smelt run of this machine which tables it keeps, and says how
// to stop it.
func (s *settings) stagesAtWork(ctx context.Context) (stages []string, stop string, err error) {
	pid, _, err := running(s.Home, "run")
	if err != nil {
		return nil, "", err
	}
	stop = "stop it"
	if pid != 0 {
		stop = fmt.Sprintf("stop it with kill %d, which lets it drain", pid)
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	response, err := s.askRun(ctx, "/readyz?verbose")
	if errors.Is(err, errNobody) && pid == 0 {
		return nil, "", nil
	}
	if errors.Is(err, errNobody) {
		return nil, "", usagef("smelt run (process %d) does not answer on %s, so what it works on is not known: %s", pid, s.HTTP, stop)
	}
	if err != nil {
		return nil, "", usagef("what the smelt run there works on is not known: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReadyz))
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(string(body)) { // "[+] silver.sensors ok", "[-] gold.x: why"
		if _, rest, ok := strings.Cut(line, "] "); ok {
			name, _, _ := strings.Cut(rest, " ")
			stages = append(stages, strings.TrimSuffix(strings.TrimSpace(name), ":"))
		}
	}
	return stages, stop, nil
}

// maxReadyz bounds what is read of an answer: a line a stage.
const maxReadyz = 1 << 20
