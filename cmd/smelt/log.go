package main

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// newLog logs as text to a terminal and as JSON to anything else.
func newLog(w io.Writer) *slog.Logger {
	if isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}

// isTerminal says whether w is a terminal for colours and redrawn lines.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colours says whether w should get colours.
func colours(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }
