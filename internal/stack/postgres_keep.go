package stack

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	// settledAfter is how long a server has to live for its end to be the first one
	// again.
	settledAfter = time.Minute

	// restarts bounds how often a server that does not settle is started again: what
	// ends it comes back, and somebody has to look.
	restarts = 10

	// restartPause leaves what is left of a killed server's processes the time to
	// notice and end; before they have, the folder is not free.
	restartPause = 250 * time.Millisecond
)

// keptPostgres is PostgreSQL for as long as the stack lives. A server that ends by itself,
// killed for want of memory, say, is started again over the same data, which then
// recovers as PostgreSQL does. The err of a database that has ended says why.
type keptPostgres struct {
	start func(context.Context) (*postgres, error)
	log   *slog.Logger
	end   context.CancelFunc
	ended chan struct{}
	err   error
}

// keepPostgres starts a server and keeps it running until stop is called. ctx bounds
// the first start.
func keepPostgres(ctx context.Context, start func(context.Context) (*postgres, error), log *slog.Logger) (*keptPostgres, error) {
	server, err := start(ctx)
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	d := &keptPostgres{start: start, log: log, end: end, ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		d.err = d.keep(running, server)
	}()
	return d, nil
}

// keep starts the server again whenever it ends, until ctx ends.
func (d *keptPostgres) keep(ctx context.Context, server *postgres) error {
	for tries := 0; ; {
		began := time.Now()
		select {
		case <-ctx.Done():
			return server.stop()
		case <-server.ended:
		}
		if time.Since(began) >= settledAfter {
			tries = 0
		}
		for err := server.err; err != nil; tries++ {
			if tries == restarts {
				return fmt.Errorf("%w\nIt was started again %d times, in vain", err, tries)
			}
			d.log.Error("PostgreSQL has ended by itself, and is started again", "error", err)
			server, err = d.again(ctx)
			if ctx.Err() != nil && err != nil {
				return nil
			}
		}
		d.log.Info("postgres is up again")
	}
}

// again starts the server after a pause.
func (d *keptPostgres) again(ctx context.Context) (*postgres, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(restartPause):
		return d.start(ctx)
	}
}

// stop ends the server, gently at first.
func (d *keptPostgres) stop() error {
	d.end()
	<-d.ended
	return d.err
}
