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
	firstPause  = 100 * time.Millisecond // before the second attempt, doubled for each further one
)

// try makes a call until it succeeds, fails for good, or has had its attempts.
func (s *S3) try(ctx context.Context, call func() error) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := call()
		if err == nil {
			return nil
		}
		if attempt == maxAttempts || !transient(err) || !wait(ctx, pause) {
			return s.explain(ctx, err)
		}
		pause *= 2
	}
}

// wait lets about d pass, and says whether ctx is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// loan lends a body to one attempt. The HTTP transport may go on reading after
// a request has been answered; once the loan has ended it gets nothing more, so
// that the next attempt and the caller have the body to themselves.
type loan struct {
	mu    sync.Mutex
	body  io.Reader
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

// download is the body of a Get. Its deadline ends with Close.
type download struct {
	s      *S3
	ctx    context.Context // of the request, which lasts until Close
	cancel context.CancelFunc
	key    string
	body   io.ReadCloser
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	if err != nil && err != io.EOF {
		err = d.s.explain(d.ctx, err)
	}
	return n, err
}

func (d *download) Close() error {
	d.cancel()
	return d.body.Close()
}
