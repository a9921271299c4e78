package smelt

import (
	"context"
	"errors"
	"io"
	"time"
)

// NoTimestamp is the Timestamp of a record without one.
const NoTimestamp int64 = -1

// NoEpoch is the Epoch of a record whose leader epoch is unknown. A new epoch begins
// when another broker becomes the partition's leader.
const NoEpoch int32 = -1

// Record is one record as its source delivered it.
type Record struct {
	Partition int32
	Offset    int64    // rises within a partition; offsets may be missing
	Skip      int64    // number of offsets right after it that hold transaction markers, not records
	Epoch     int32    // leader epoch of the record's batch, or of the last marker after it; or NoEpoch
	Timestamp int64    // from the broker, in milliseconds since 1970, or NoTimestamp
	Key       []byte   // nil: the record has no key
	Headers   []Header // in the order received
	Value     []byte   // nil: the record is a tombstone
}

// Header is one header of a record. Names may repeat.
type Header struct {
	Name  string
	Value []byte
}

// Extent is the range of offsets that a source still holds of a partition: Start
// inclusive, End exclusive.
type Extent struct {
	Start, End int64
}

// Description is the identity of a source and what it holds.
type Description struct {
	Cluster    string // id of the Kafka cluster
	Topic      string // id of the topic; a re-created topic has another one
	Partitions map[int32]Extent

	// Shared is, per partition, the offset up to which the log still contains the
	// epoch that was asked for; see Resume. It has the partitions that were asked for.
	// It may lie after Extent.End, which open transactions hold back.
	Shared map[int32]int64
}

// Resume returns the offset at which a source must begin to read a partition: the first
// one whose record the lake does not have. A source calls it when it is assigned a
// partition, and when the log no longer has the next offset. It delivers no record of the
// partition until the call returns.
//
// held returns what the log has now. It ends at the offset up to which the log still
// contains the given leader epoch. If the log was truncated and has grown since, later
// records are different ones.
//
// After ErrStopped the source does not read the partition. It continues with the others
// and asks again every few seconds. Poll returns any other error, and the next Poll asks
// again.
type Resume func(ctx context.Context, partition int32, held func(ctx context.Context, epoch int32) (Extent, error)) (next int64, err error)

// Source is a partitioned log of records that can be read again. Several instances may
// share its partitions. Each partition then belongs to one of them at a time. One
// goroutine uses a Source. Any goroutine may call Describe.
type Source interface {
	// Poll returns the next records. Each partition starts at the offset from Resume
	// and continues in rising order without gaps. Poll waits until it has records or
	// ctx ends; if ctx ends first, it returns no records and no error. It returns
	// about max bytes, and at least one whole record. The bytes are valid until the
	// next Poll. Partitions are assigned and revoked only during Poll.
	Poll(ctx context.Context, max int) ([]Record, error)

	// Commit stores the next offset of each partition with the source, so that the
	// source's own tools can show the lag. smelt never reads it back.
	Commit(ctx context.Context, next map[int32]int64) error

	// Describe returns the source's identity and its partitions' extents.
	Describe(ctx context.Context) (Description, error)

	// Close leaves the group and releases the connections.
	Close() error
}

// Object is one object of a store, without its bytes.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
	Meta     map[string]string // user metadata, lower-case names; nil in a listing
}

// PutOptions are the options of Store.Put.
type PutOptions struct {
	IfAbsent bool              // fail with ErrExists if the key exists
	Meta     map[string]string // lower-case names, printable ASCII values
}

// Store is a bucket with flat keys and whole objects. Listings are in byte order of the
// keys. Each call sees the effects of all earlier calls. A Store is safe for concurrent
// use. ErrExists and ErrNotFound are definite answers. After any other error the outcome
// is unknown, because the reply may have been lost.
type Store interface {
	// Get opens an object. It fails with ErrNotFound if the key does not exist.
	Get(ctx context.Context, key string) (io.ReadCloser, Object, error)

	// Stat describes an object. It fails with ErrNotFound if the key does not exist.
	Stat(ctx context.Context, key string) (Object, error)

	// Put writes a whole object, or nothing. With IfAbsent exactly one of several
	// writers succeeds; the others get ErrExists. Put reads body from its start, and
	// again for each retry.
	Put(ctx context.Context, key string, body io.ReadSeeker, opts PutOptions) error

	// List returns the first limit objects whose keys start with prefix and are
	// greater than after. Fewer than limit means that there are no more.
	List(ctx context.Context, prefix, after string, limit int) ([]Object, error)

	// Delete removes objects. It ignores keys that do not exist.
	Delete(ctx context.Context, keys ...string) error
}

// DataFile describes a Parquet file with what an Iceberg table records about it.
type DataFile struct {
	Path      string            // local path, or a key of the store once uploaded
	Rows      int64             // at least 1
	Bytes     int64             // size of the file
	Columns   map[string]Bounds // by column name, top-level columns only
	Partition map[string]any    // by name of the partition field; nil for an unpartitioned table
}

// Bounds are the statistics of one column of a DataFile.
type Bounds struct {
	Min, Max string // as DuckDB prints them; empty if unknown or if all values are NULL
	Known    bool   // Min and Max are set
	Nulls    int64
	NaN      bool // a floating-point column that contains NaN
}

// Move replaces the metadata file of an Iceberg table.
type Move struct {
	Table    string // such as "silver.sensors"
	From, To string // locations of metadata files; an empty From creates the table
}

// Locker lets one process at a time work on a table. A lock can be lost at any moment.
// It saves duplicate work; correctness does not depend on it.
type Locker interface {
	// TryLock takes the lock of a name until unlock is called. It returns ErrLocked
	// if another process holds it.
	TryLock(ctx context.Context, name string) (unlock func(), err error)

	// Lock waits for the lock. Waiting callers get it before later TryLock calls.
	Lock(ctx context.Context, name string) (unlock func(), err error)
}

// Progress is the result of a step.
type Progress struct {
	Records int64 // records processed; windows for gold
	Bytes   int64 // compressed bytes of bronze that were written or read
	More    bool  // more work is waiting

	// Repeated counts repeated names within JSON objects. The first one is used.
	Repeated int64
}

// Stage is one stage of the line over one pipeline.
type Stage interface {
	// Name is the table that the stage writes, such as "silver.sensors".
	Name() string

	// Step does one bounded piece of work, if there is any. It depends on durable
	// state only, so it can be called again after an error. With ErrStopped it has
	// done all other work.
	Step(ctx context.Context) (Progress, error)
}

// Outcomes that callers handle.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	ErrLocked   = errors.New("locked by another process")

	// ErrStopped means that part of the work waits for an operator's decision. The
	// rest continues.
	ErrStopped = errors.New("stopped until an operator decides")
)

// Kinds of errors. Each has its own exit code. Test for a kind with errors.Is; set it
// with [Mark].
var (
	ErrPipeline = errors.New("bad pipeline")
	ErrSource   = errors.New("source unavailable")
	ErrStore    = errors.New("store unavailable")
	ErrDatabase = errors.New("database unavailable")
	ErrVerify   = errors.New("verification failed")
	ErrDrain    = errors.New("drain incomplete")
	ErrAudit    = errors.New("audit failed")
)

// Mark gives err a kind and keeps its message. A nil err stays nil. An error that has a
// kind keeps it.
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
