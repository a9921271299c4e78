package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// ask asks at a terminal whether to continue. No answer means no. Without a terminal --yes must answer.
func ask(ctx context.Context, io *streams, question string) error {
	if !isTerminalInput(io.In) {
		return usagef("nothing was done; --yes answers in a script")
	}
	fmt.Fprintf(io.Err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(untilDone(ctx, io.In)).ReadString('\n')
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return usagef("nothing was done")
}
