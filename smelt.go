package smelt

import (
	"context"
	"errors"
	"io"
	"time"
)

// NoTimestamp is the Timestamp of a record to which the broker gave none.
const NoTimestamp int64 = -1

// NoEpoch is the Epoch of a record of which it is not known. An epoch ends when
// another broker takes a partition over.
const NoEpoch int32 = -1

// Record is one event as its source delivered it.
type Record struct {
	Partition int32
	Offset    int64    // rises within a partition, with holes
	Skip      int64    // how many offsets right after it are known to have no record: of transactions' marks
	Epoch     int32    // of the broker that led the partition when it took the record, or the last such mark; or NoEpoch
	Timestamp int64    // the broker's, in milliseconds since 1970, or NoTimestamp
	Key       []byte   // nil: the record has no key
	Headers   []Header // in the order received
	Value     []byte   // nil: a tombstone
}

// Header is one header of a record. Names may repeat.
type Header struct {
	Name  string
	Value []byte
}

// Extent is the part of a partition that its source still holds: offsets from
// Start up to, but not including, End.
type Extent struct {
	Start, End int64
}

// Description says what a source is and what it holds.
type Description struct {
	Cluster    string // the broker cluster's own id
	Topic      string // the topic's own id, which a re-created topic does not share
	Partitions map[int32]Extent

	// Shared is up to where a partition's log is the one in which a record of an
	// epoch was, for partitions that were asked about; see Resume. Unlike the end of
	// an extent it may lie beyond what transactions that are open hold back.
	Shared map[int32]int64
}

// Resume tells a source where to begin a partition that it has just been given:
// at the first of its offsets whose record the lake does not have. A source calls
// it each time it is given a partition, or finds that the log no longer holds what
// comes next, and delivers nothing of the partition before the call has returned.
// held asks the source what the partition's log holds at that moment, as far as it is
// the log in which a record of an epoch was: one that has lost its end, and grown
// since, has others from there on.
//
// With ErrStopped the partition is not to be read: the source goes on with the
// others, and asks again every few seconds. Poll returns any other error, and the
// source asks again at the next one.
type Resume func(ctx context.Context, partition int32, held func(ctx context.Context, epoch int32) (Extent, error)) (next int64, err error)

// Source is a partitioned, replayable log of records. Several instances of one
// source may share its partitions; each partition then belongs to one of them
// at a time. A Source is used by one goroutine, apart from Describe, which any
// may call.
type Source interface {
	// Poll returns records that follow what it returned before: within a
	// partition in rising order, none left out, from the offset that Resume gave.
	// It waits until there are some or ctx ends; when ctx ends first it returns
	// no records and no error. It returns about max bytes at most, but always a
	// whole record. The records' bytes are valid until the next Poll, and
	// partitions change hands only inside Poll.
	Poll(ctx context.Context, max int) ([]Record, error)

	// Commit tells the source up to which offset (exclusive) the lake has each
	// partition, so that its own tools can show the lag. It is information only.
	Commit(ctx context.Context, next map[int32]int64) error

	// Describe asks the source for its identity and its partitions' extents.
	Describe(ctx context.Context) (Description, error)

	// Close leaves the group and releases the connections.
	Close() error
}

// Object is one object of a store, without its bytes.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
	Meta     map[string]string // lower-case names; nil in a listing
}

// PutOptions say how an object is put.
type PutOptions struct {
	IfAbsent bool              // fail with ErrExists when the key is taken
	Meta     map[string]string // lower-case names, printable ASCII values
}

// Store is a bucket: flat keys, whole objects, listed in the order of their
// keys' bytes. What a call has done is visible to every later call. It is safe
// for concurrent use. Any call may fail with an error that leaves the outcome
// open (a reply that was lost); only ErrExists and ErrNotFound are answers.
type Store interface {
	// Get opens an object. It fails with ErrNotFound when there is none.
	Get(ctx context.Context, key string) (io.ReadCloser, Object, error)

	// Stat describes an object. It fails with ErrNotFound when there is none.
	Stat(ctx context.Context, key string) (Object, error)

	// Put writes a whole object, or nothing. With IfAbsent exactly one of
	// several writers succeeds and the others get ErrExists. It reads body from
	// its start, again if it has to try again.
	Put(ctx context.Context, key string, body io.ReadSeeker, opts PutOptions) error

	// List returns the first limit objects whose key starts with prefix and is
	// greater than after; fewer than limit means that there are no more.
	List(ctx context.Context, prefix, after string, limit int) ([]Object, error)

	// Delete removes objects. A key that does not exist is no error.
	Delete(ctx context.Context, keys ...string) error
}

// DataFile is a Parquet file as its writer describes it: what an Iceberg table
// needs to know to take it in.
type DataFile struct {
	Path      string            // where it is: a local path, or a key of the store once uploaded
	Rows      int64             // never 0
	Bytes     int64             //
	Columns   map[string]Bounds // by the column's name; nested leaves are left out
	Partition map[string]any    // by partition field's name; nil for an unpartitioned table
}

// Bounds are the statistics of one column of a DataFile.
type Bounds struct {
	Min, Max string // as DuckDB prints them; both empty when unknown or all NULL
	Known    bool   // Min and Max hold
	Nulls    int64
	NaN      bool // a floating-point column that has NaN
}

// Move takes an Iceberg table from one metadata file to the next.
type Move struct {
	Table    string // such as "silver.sensors"
	From, To string // locations of metadata files; From "" creates the table
}

// Locker lets one process at a time work on a table. A lock may be lost at any
// moment: it saves work, it does not make anything correct.
type Locker interface {
	// TryLock takes the lock of a name, or returns ErrLocked when another holds
	// it. The lock is held until unlock is called.
	TryLock(ctx context.Context, name string) (unlock func(), err error)

	// Lock takes the lock as soon as it is free: who waits comes before all that
	// try later.
	Lock(ctx context.Context, name string) (unlock func(), err error)
}

// Progress is what a step did.
type Progress struct {
	Records int64 // records that went through
	Bytes   int64 // of bronze objects, as stored, that were written or read
	More    bool  // there is more to do at once

	// Repeated is how many names occurred again within an object: the first one counts.
	Repeated int64
}

// Stage is one stage of the line over one pipeline.
type Stage interface {
	// Name is the table that the stage writes: "bronze.sensors".
	Name() string

	// Step does one bounded piece of work, or finds that there is none. After
	// an error the stage may be stepped again: it goes by what is durable. With
	// ErrStopped it has done what it could.
	Step(ctx context.Context) (Progress, error)
}

// Outcomes that callers act upon.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	ErrLocked   = errors.New("locked by another process")

	// ErrStopped says that a part of the work waits for an operator's decision.
	// What else there is goes on.
	ErrStopped = errors.New("stopped until an operator decides")
)

// Kinds of trouble, each with an exit code of its own. An error has a kind when
// errors.Is says so; [Mark] gives it one.
var (
	ErrPipeline = errors.New("bad pipeline")
	ErrSource   = errors.New("source unavailable")
	ErrStore    = errors.New("store unavailable")
	ErrDatabase = errors.New("database unavailable")
	ErrVerify   = errors.New("verification failed")
	ErrDrain    = errors.New("drain incomplete")
	ErrAudit    = errors.New("audit failed")
)

// Mark gives err a kind and leaves its message as it is. A nil err stays nil;
// an error that has a kind keeps it.
func Mark(kind, err error) error {
	if err == nil {
		return nil
	}
	for _, k := range []error{ErrPipeline, ErrSource, ErrStore, ErrDatabase, ErrVerify, ErrDrain, ErrAudit} {
		if errors.Is(err, k) {
			return err
		}
	}
	return &marked{err, kind}
}

type marked struct {
	err  error
	kind error
}

func (m *marked) Error() string   { return m.err.Error() }
func (m *marked) Unwrap() []error { return []error{m.err, m.kind} }
