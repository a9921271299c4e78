package ingest

import (
	"cmp"
	"slices"
	"sync"

	"smelt"
)

// Log is a topic in memory, for tests. Records are appended and partitions are assigned only when the
// test says so.
type Log struct {
	mu         sync.Mutex
	id         string // of the topic, which Recreate changes
	partitions []logPartition
	changed    chan struct{} // closed, and replaced, at each change
}

type logPartition struct {
	start, end int64
	epoch      int32
	records    []smelt.Record
	committed  int64
	owner      *LogSource
	handovers  int // how often it was assigned
}

// NewLog makes an empty topic.
func NewLog(partitions int) *Log {
	return &Log{id: "log", partitions: make([]logPartition, partitions), changed: make(chan struct{})}
}

// Append adds each record at the end of its partition and sets its offset. The
// log keeps the bytes: they may not be changed any more.
func (l *Log) Append(records ...smelt.Record) {
	l.change(func() {
		for _, r := range records {
			p := &l.partitions[r.Partition]
			r.Offset, r.Epoch = p.end, p.epoch
			p.end++
			p.records = append(p.records, r)
		}
	})
}

// Skip leaves a hole of n offsets at the end of a partition, as a transaction's
// marker or compaction does.
func (l *Log) Skip(partition int32, n int64) {
	l.change(func() { l.partitions[partition].end += n })
}

// Truncate deletes the records of a partition below start, as retention does.
func (l *Log) Truncate(partition int32, start int64) {
	l.change(func() {
		p := &l.partitions[partition]
		p.start = min(max(p.start, start), p.end)
		p.records = slices.Clone(p.records[p.from(p.start):])
	})
}

// GoBack loses the records of a partition from end on, as a broker does that is
// brought back from a backup, and begins a new epoch.
func (l *Log) GoBack(partition int32, end int64) {
	l.change(func() {
		p := &l.partitions[partition]
		p.end = max(end, p.start)
		p.epoch++
		p.records = slices.Clone(p.records[:p.from(p.end)])
	})
}

// Recreate deletes the topic and creates an empty one of its name. Readers notice when they ask for
// records or for the identity.
func (l *Log) Recreate() {
	l.change(func() {
		l.id += "+"
		for i := range l.partitions {
			p := &l.partitions[i]
			*p = logPartition{handovers: p.handovers, committed: p.committed}
		}
	})
}

// Assign gives a partition to an instance, at once; nil gives it to none. The
// one that had it finds out at its next Poll, like one that was paused while
// the group went on without it.
func (l *Log) Assign(partition int32, to *LogSource) {
	l.change(func() { l.partitions[partition].assign(to) })
}

// Committed is the offset that was last committed for a partition.
func (l *Log) Committed(partition int32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.partitions[partition].committed
}

// Open makes an instance of the source. It is given the partitions that belong
// to no instance.
func (l *Log) Open(resume smelt.Resume) *LogSource {
	s := &LogSource{log: l, resume: resume, places: make([]place, len(l.partitions))}
	l.change(func() {
		s.id = l.id
		for i := range l.partitions {
			if p := &l.partitions[i]; p.owner == nil {
				p.assign(s)
			}
		}
	})
	return s
}

func (l *Log) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (p *logPartition) extent() smelt.Extent { return smelt.Extent{Start: p.start, End: p.end} }

// held is what the partition's log has, as far as it still contains an epoch.
func (p *logPartition) held(epoch int32) smelt.Extent {
	held := p.extent()
	if epoch == smelt.NoEpoch {
		return held
	}
	later, _ := slices.BinarySearchFunc(p.records, epoch+1, func(r smelt.Record, epoch int32) int { return cmp.Compare(r.Epoch, epoch) })
	if later < len(p.records) {
		held.End = p.records[later].Offset
	}
	return held
}

func (p *logPartition) assign(to *LogSource) {
	p.owner = to
	p.handovers++
}

// from is the index of the first record at offset or above.
func (p *logPartition) from(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.records, offset, func(r smelt.Record, offset int64) int {
		return int(r.Offset - offset)
	})
	return i
}
