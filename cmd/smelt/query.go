package main

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/term"

	"smelt/shell"
)

// queryCmd is the query shell.
type queryCmd struct {
	Command    []string `short:"c" sep:"none" placeholder:"SQL" help:"Run statements and leave; may be repeated."`
	CSV        bool     `name:"csv" xor:"format" help:"Print results as CSV."`
	JSON       bool     `name:"json" xor:"format" help:"Print each result as an array of JSON objects."`
	Consistent bool     `xor:"state" help:"Have each statement see a state in which all tables fit each other: silver and quarantine as all of gold has taken them in, and bronze up to there."`
	At         string   `xor:"state" placeholder:"TIME|TAG|SNAPSHOT" help:"Show the lake as it was: at a time (2026-11-29 22:10:05 in UTC, 2026-11-29, 2h ago), at a tag, or at a table's snapshot."`
}

// Run runs the statements of -c or of standard input, and stops at the first
// one that fails; at a terminal it opens a shell.
func (c *queryCmd) Run(ctx context.Context, s *settings, io *streams) error {
	pipelines, err := s.pipelines()
	if err != nil {
		return err
	}
	lake, err := s.openReader(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	sh, err := shell.Open(ctx, shell.Config{
		Home: s.Home, Extensions: s.extensions(), Memory: int64(s.Memory), At: c.At, Consistent: c.Consistent,
		Pipelines: pipelines, Store: lake.Store, Tables: lake.Tables, References: lake.Database, Log: newLog(io.Err),
		S3: shell.Remote{Bucket: s.S3Bucket, Transport: lake.Store.Reader(shell.RelayConns)},
	})
	if errors.Is(err, shell.ErrNoPast) {
		return usageError{fmt.Errorf("--at: %w", err)}
	}
	if err != nil {
		return err
	}
	defer sh.Close()
	printer := &shell.Printer{Out: io.Out, Err: io.Err, Format: c.format(), Width: func() int { return columns(io.Out) }, Colour: colours(io.Out)}
	if len(c.Command) == 0 && isTerminal(io.Out) && isTerminalInput(io.In) {
		// An interrupt stops a statement, not the shell.
		signal.Reset(os.Interrupt)
		return sh.Interact(ctx, printer, filepath.Join(s.Home, "history"))
	}
	texts := c.Command
	if len(texts) == 0 {
		text, err := stdio.ReadAll(untilDone(ctx, io.In))
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		texts = []string{string(text)}
	}
	return runAll(ctx, sh, printer, texts)
}

// runAll runs the statements of texts, up to the first that fails.
func runAll(ctx context.Context, sh *shell.Shell, printer *shell.Printer, texts []string) error {
	for _, text := range texts {
		for _, statement := range shell.Statements(text) {
			result, err := sh.Run(ctx, statement, printer.Format == shell.JSON)
			if err != nil {
				return err
			}
			if err := printer.Print(result); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *queryCmd) format() shell.Format {
	switch {
	case c.CSV:
		return shell.CSV
	case c.JSON:
		return shell.JSON
	}
	return shell.Table
}

// columns is the width of a terminal, or 0.
func columns(w stdio.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

func isTerminalInput(r stdio.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
