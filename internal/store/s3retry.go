package store

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	maxAttempts = 4                      // of one call: rides out a hiccup; an outage is the caller's to wait for
	maxSilences = 2                      // attempts of one call that get no answer at all: each has taken long
	firstPause  = 100 * time.Millisecond // before the second attempt, doubled for each further one
	maxAfter    = 20 * time.Second       // longest pause that a server may request
)

// try makes a call until it succeeds, fails for good, or has had its attempts.
func (s *S3) try(ctx context.Context, call func(*watch) error) error {
	w, err := s.attempt(ctx, call)
	if err == nil {
		w.end()
	}
	return err
}

// attempt is like try, and leaves the request of the attempt that succeeded under
// watch.
func (s *S3) attempt(ctx context.Context, call func(*watch) error) (*watch, error) {
	pause, silences := firstPause, 0
	for attempt := 1; ; attempt++ {
		w := newWatch(ctx, s.quiet)
		keys, err := s.current(w.ctx)
		if err == nil {
			err = call(w)
		}
		if err == nil {
			return w, nil
		}
		w.end()
		if attempt < maxAttempts && refused(err) && s.renewed(ctx, keys) {
			continue
		}
		if w.silent() && !noKeys(err) {
			err = errQuiet
			silences++
			s.transport.CloseIdleConnections() // they may lead nowhere, too
		}
		if attempt == maxAttempts || silences == maxSilences || !transient(err) || !wait(ctx, max(pause, min(w.after, maxAfter))) {
			return nil, s.explain(ctx, err)
		}
		pause *= 2
	}
}

// wait lets d pass, and up to half as much again, so that those who failed at one
// moment do not all come back at one. It says whether ctx is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// loan lends a body to one attempt. The HTTP transport may read on after a request was answered. After the loan has ended
// it gets nothing more, so that the next attempt and the caller can use the body.
type loan struct {
	watch *watch

	mu    sync.Mutex
	body  io.Reader
	began bool // some of it may have been sent
	ended bool
	err   error
}

var errLoanEnded = errors.New("the request is over")

func (l *loan) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return 0, errLoanEnded
	}
	l.began = true
	l.watch.moved() // the bytes before have been taken
	n, err := l.body.Read(p)
	if err != nil && err != io.EOF {
		l.err = err
	}
	return n, err
}

// end takes the body back and returns the error that reading it gave.
func (l *loan) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.err
}

// bodyError is trouble with the bytes to be sent, not with the store.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "read the body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// download is the body of a Get. Its deadline ends with Close. Its watch is paused while the caller does not read.
type download struct {
	s      *S3
	ctx    context.Context // of the request, which lasts until Close
	cancel context.CancelFunc
	watch  *watch
	body   io.ReadCloser
}

func (d *download) Read(p []byte) (int, error) {
	d.watch.moved()
	n, err := d.body.Read(p)
	d.watch.rest()
	if err == nil || err == io.EOF {
		return n, err
	}
	if d.watch.silent() {
		err = errQuiet
	}
	return n, d.s.explain(d.ctx, err)
}

func (d *download) Close() error {
	d.watch.end()
	d.cancel()
	return d.body.Close()
}
