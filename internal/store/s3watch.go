package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// errQuiet ends an attempt in which no byte moves any more.
var errQuiet = errors.New("no byte moved for too long")

// watch ends a request when no byte has moved, either way, for a while.
type watch struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	quiet  time.Duration
	timer  *time.Timer
	after  time.Duration // the pause that the server requests
}

type watchKey struct{}

func newWatch(ctx context.Context, quiet time.Duration) *watch {
	w := &watch{quiet: quiet}
	w.ctx, w.cancel = context.WithCancelCause(context.WithValue(ctx, watchKey{}, w))
	w.timer = time.AfterFunc(quiet, func() { w.cancel(errQuiet) })
	return w
}

// moved says that bytes have moved, or are about to.
func (w *watch) moved() { w.timer.Reset(w.quiet) }

// rest stops watching, until bytes are to move again.
func (w *watch) rest() { w.timer.Stop() }

// end ends the request.
func (w *watch) end() {
	w.rest()
	w.cancel(nil)
}

// silent says whether the watch has ended the request.
func (w *watch) silent() bool { return context.Cause(w.ctx) == errQuiet }

// transport tells the watch of each request that a reply has come, and lets no
// reply pass for an S3's that is none.
type transport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if w, ok := r.Context().Value(watchKey{}).(*watch); ok {
		w.moved()
		w.after = retryAfter(reply, time.Now())
	}
	if reply.StatusCode == http.StatusNotFound && r.Method != http.MethodHead {
		if err := checkMissing(reply); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

const maxRefusal = 64 << 10 // bytes: far above what an S3 says when it refuses

// checkMissing rejects a 404 without an S3 error code, for example from a proxy that does not find the S3. It would
// otherwise count as a missing object.
func checkMissing(reply *http.Response) error {
	said, err := io.ReadAll(io.LimitReader(reply.Body, maxRefusal))
	if err = errors.Join(err, reply.Body.Close()); err != nil {
		return err
	}
	reply.Body = io.NopCloser(bytes.NewReader(said))
	if !bytes.Contains(said, []byte("<Code>")) {
		return errors.New("HTTP 404 without a code of S3's: is something else in between?")
	}
	return nil
}

// retryAfter is how long a server that is too busy wants to be left alone: its
// header has seconds, or a time.
func retryAfter(reply *http.Response, now time.Time) time.Duration {
	if reply.StatusCode != http.StatusServiceUnavailable && reply.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	header := reply.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return at.Sub(now)
	}
	return 0
}
