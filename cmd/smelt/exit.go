package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"smelt"
)

// Exit codes. Scripts rely on them.
const (
	exitOK          = 0
	exitBug         = 1
	exitUsage       = 2
	exitPipeline    = 3
	exitSource      = 4
	exitStore       = 5
	exitDatabase    = 6
	exitVerify      = 7
	exitDrain       = 8
	exitAudit       = 9
	exitInterrupted = 130
)

const exitCodes = `Exit codes: 0 done; 1 a bug, or a statement that failed; 2 wrong usage; 3 a bad pipeline; 4 the source (Kafka); 5 the store (S3); 6 the database (PostgreSQL); 7 verification failed; 8 stopped before all was drained; 9 an audit failed, and a backfill published nothing; 130 interrupted twice.`

// usageError is a mistake in how a command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode gives the exit code for an error.
func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, smelt.ErrPipeline):
		return exitPipeline
	case errors.Is(err, smelt.ErrSource):
		return exitSource
	case errors.Is(err, smelt.ErrStore):
		return exitStore
	case errors.Is(err, smelt.ErrDatabase):
		return exitDatabase
	case errors.Is(err, smelt.ErrVerify):
		return exitVerify
	case errors.Is(err, smelt.ErrDrain):
		return exitDrain
	case errors.Is(err, smelt.ErrAudit):
		return exitAudit
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitBug
}

// report prints an error, once, and gives its exit code.
func report(w io.Writer, err error) int {
	if err != nil {
		fmt.Fprintf(w, "smelt: %v\n", err)
	}
	return exitCode(err)
}
