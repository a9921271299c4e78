package shell

import (
	"context"
	"io"
)

// Greet prints what a shell at a terminal begins with.
func (s *Shell) Greet(ctx context.Context, w io.Writer) error { return s.greet(ctx, w) }
