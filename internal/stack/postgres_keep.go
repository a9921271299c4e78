package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
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

	logMax   = 32 << 20    // bytes of the server's log, as of smelt's own
	logEvery = time.Minute // how often it is looked at
)

// keptPostgres runs PostgreSQL for as long as the stack lives. A server that dies, for example for lack of memory, is
// restarted over the same data and recovers. err says why the database has ended.
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
		if d.watch(ctx, server); ctx.Err() != nil {
			return server.stop()
		}
		if time.Since(began) >= settledAfter {
			tries = 0
		}
		for err := server.err; err != nil; tries++ {
			if tries == restarts {
				return fmt.Errorf("%w\nIt was started again %d times, in vain", err, tries)
			}
			d.log.Error("PostgreSQL has died and is restarted", "error", err)
			server, err = d.again(ctx)
			if ctx.Err() != nil && err != nil {
				return nil
			}
		}
		d.log.Info("postgres is up again")
	}
}

// watch keeps the server's log small until the server has ended, or ctx.
func (d *keptPostgres) watch(ctx context.Context, server *postgres) {
	look := time.NewTicker(logEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-server.ended:
			return
		case <-look.C:
			if err := putAside(server.log, logMax); err != nil {
				d.log.Warn("PostgreSQL's log cannot be put aside, and grows", "error", err)
			}
		}
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

// putAside copies a log of more than max bytes to a file beside it (.1), which it replaces, and truncates the log, which its
// writer appends to. Text written in between is lost.
func putAside(path string, max int64) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() <= max {
		return err
	}
	old, err := os.OpenFile(path+".1", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	log, err := os.Open(path)
	if err != nil {
		return errors.Join(err, old.Close())
	}
	defer log.Close()
	_, err = io.Copy(old, log)
	if err = errors.Join(err, old.Close()); err != nil {
		return err
	}
	return os.Truncate(path, 0)
}
