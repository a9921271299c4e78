package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"smelt"
)

var (
	// ErrInjected is a fault that a [Faulty] made up. Such errors are of the
	// kind [smelt.ErrStore].
	ErrInjected = errors.New("injected fault")

	// ErrCrash is the fault after which the process counts as dead. It is an
	// ErrInjected too.
	ErrCrash = fmt.Errorf("%w: crashed", ErrInjected)
)

// Op is a call of a store.
type Op struct {
	Name string // get, stat, put, list or delete
	Key  string // of a list its prefix, of a delete its first key
}

// Fault says what goes wrong with a call.
type Fault int

const (
	None       Fault = iota // nothing goes wrong
	FailBefore              // nothing is done, and the call fails with ErrInjected
	FailAfter               // all is done, the reply is lost: the call fails with ErrInjected
	Crash                   // nothing is done, and the process is dead
	CrashAfter              // all is done, and the process is dead
)

// Faulty is a [smelt.Store] whose calls fail on request. After a crash, that call and every later one fail with
// [ErrCrash] and have no effect, like calls of a dead process. A new Faulty over the same store is the
// restarted process.
type Faulty struct {
	inner  smelt.Store
	decide func(Op) Fault
	dead   atomic.Bool
}

// NewFaulty returns a store that asks decide before each call to inner. Decide
// must be safe for concurrent use when the store is used so.
func NewFaulty(inner smelt.Store, decide func(Op) Fault) *Faulty {
	return &Faulty{inner: inner, decide: decide}
}

// around does a call with the fault that was decided for it.
func (f *Faulty) around(op Op, call func() error) error {
	if f.dead.Load() {
		return injected(op, ErrCrash)
	}
	fault := f.decide(op)
	if fault == Crash || fault == CrashAfter {
		f.dead.Store(true)
	}
	switch fault {
	case FailBefore:
		return injected(op, ErrInjected)
	case Crash:
		return injected(op, ErrCrash)
	}
	err := call()
	switch fault {
	case FailAfter:
		return injected(op, ErrInjected)
	case CrashAfter:
		return injected(op, ErrCrash)
	}
	return err
}

func injected(op Op, err error) error {
	return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s %s: %w", op.Name, op.Key, err))
}

// Get opens an object, or fails.
func (f *Faulty) Get(ctx context.Context, key string) (io.ReadCloser, smelt.Object, error) {
	var body io.ReadCloser
	var object smelt.Object
	err := f.around(Op{"get", key}, func() (err error) {
		body, object, err = f.inner.Get(ctx, key)
		return err
	})
	if err != nil {
		if body != nil {
			body.Close()
		}
		return nil, smelt.Object{}, err
	}
	return body, object, nil
}

// Stat describes an object, or fails.
func (f *Faulty) Stat(ctx context.Context, key string) (smelt.Object, error) {
	var object smelt.Object
	err := f.around(Op{"stat", key}, func() (err error) {
		object, err = f.inner.Stat(ctx, key)
		return err
	})
	if err != nil {
		return smelt.Object{}, err
	}
	return object, nil
}

// Put writes an object, or fails.
func (f *Faulty) Put(ctx context.Context, key string, body io.ReadSeeker, opts smelt.PutOptions) error {
	return f.around(Op{"put", key}, func() error {
		return f.inner.Put(ctx, key, body, opts)
	})
}

// List lists objects, or fails.
func (f *Faulty) List(ctx context.Context, prefix, after string, limit int) ([]smelt.Object, error) {
	var objects []smelt.Object
	err := f.around(Op{"list", prefix}, func() (err error) {
		objects, err = f.inner.List(ctx, prefix, after, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return objects, nil
}

// Delete removes objects, or fails.
func (f *Faulty) Delete(ctx context.Context, keys ...string) error {
	op := Op{Name: "delete"}
	if len(keys) > 0 {
		op.Key = keys[0]
	}
	return f.around(op, func() error {
		return f.inner.Delete(ctx, keys...)
	})
}
