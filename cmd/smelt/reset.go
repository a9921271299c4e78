package main

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"smelt/internal/stack"
)

// resetCmd stops everything and wipes the state folder.
type resetCmd struct {
	Yes bool `help:"Do not ask."`
}

// Run asks, stops and wipes. A lake that is not the embedded stack's is left
// alone.
func (c *resetCmd) Run(ctx context.Context, s *settings, io *streams) error {
	home, err := filepath.Abs(s.Home)
	if err != nil {
		return err
	}
	if !c.Yes {
		fmt.Fprintf(io.Err, "This stops smelt and deletes the embedded stack's topics, lake and database in %s. Go on? [y/N] ", home)
		answer, _ := bufio.NewReader(untilDone(ctx, io.In)).ReadString('\n') // no answer is a no
		if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
			return usagef("nothing was done; --yes answers in a script")
		}
	}
	if err := (stopCmd{}).Run(ctx, s, io); err != nil {
		fmt.Fprintln(io.Err, err) // it is being wiped
	}
	if err := stack.Remove(home); err != nil {
		return err
	}
	if err := wipe(home); err != nil {
		return err
	}
	fmt.Fprintf(io.Err, "wiped %s\n", home)
	return nil
}
