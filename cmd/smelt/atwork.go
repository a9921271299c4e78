package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"smelt/internal/telemetry"
)

// refuseAtWork refuses to drop tables of a running `smelt run`, which would create them again at once.
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
	steps, err := s.askStages(ctx)
	if errors.Is(err, errNobody) && pid == 0 {
		return nil, "", nil
	}
	if errors.Is(err, errNobody) {
		return nil, "", usagef("smelt run (process %d) does not answer on %s, so what it works on is not known: %s", pid, s.HTTP, stop)
	}
	if err != nil {
		return nil, "", usagef("what the smelt run there works on is not known: %w", err)
	}
	for _, step := range steps {
		stages = append(stages, step.stage)
	}
	return stages, stop, nil
}

// failing asks the smelt run of this machine what is wrong with its stages, by table.
func (s *settings) failing(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	steps, err := s.askStages(ctx)
	if err != nil {
		return nil, err
	}
	wrong := map[string]string{}
	for _, step := range steps {
		if step.wrong != "" && step.wrong != telemetry.NotYet {
			wrong[step.stage] = step.wrong
		}
	}
	return wrong, nil
}

// stageReady is a stage of smelt run, and what keeps it from being ready.
type stageReady struct{ stage, wrong string }

// askStages asks smelt run for its stages.
func (s *settings) askStages(ctx context.Context) ([]stageReady, error) {
	response, err := s.askRun(ctx, "/readyz?verbose")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReadyz))
	return readStages(string(body)), err
}

// readStages reads "[+] silver.sensors ok" and "[-] gold.x: why", a line a stage.
func readStages(body string) (stages []stageReady) {
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "[+] "); ok {
			stages = append(stages, stageReady{stage: strings.TrimSuffix(name, " ok")})
		} else if rest, ok := strings.CutPrefix(line, "[-] "); ok {
			name, why, _ := strings.Cut(rest, ": ")
			stages = append(stages, stageReady{name, why})
		}
	}
	return stages
}

// maxReadyz bounds what is read of an answer: a line a stage.
const maxReadyz = 1 << 20
