package main

import (
	"context"
	"io"
)

// untilDone reads r until ctx ends, even while a read waits for input that may
// never come; from then on reads fail with the context's cause.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err) // nil is the end of the input
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	return out
}
