package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/bronze"
)

// errFound ends the reading of an object.
var errFound = errors.New("found")

// findRecord reads the record from its bronze object.
func (r *tracing) findRecord(ctx context.Context) error {
	reader := bronze.NewReader(r.Area.Store, r.Pipeline)
	ref, m, err := reader.Find(ctx, r.Partition, r.Offset)
	if errors.Is(err, smelt.ErrNotFound) {
		return r.noObject(ctx, reader)
	}
	if err != nil {
		return err
	}
	r.Object = TracedObject{
		Key: ref.Key, Bytes: ref.Size, Codec: ref.Codec, Start: m.Start, End: m.End, First: m.First, Last: m.Last,
		Records: m.Count, Members: m.Members, Written: m.Written, Writer: m.Writer, Cluster: m.Cluster, Topic: m.Topic,
	}
	before := int64(-1) // the offset of the last record below the one sought
	_, err = reader.Lines(ctx, ref, func(line []byte) error {
		decoded, err := bronze.Decode(line)
		if err != nil {
			return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s: %w", ref.Key, err))
		}
		if decoded.Record.Offset < r.Offset {
			before = decoded.Record.Offset
			return nil
		}
		r.Record = bytes.Clone(line)
		return errFound
	})
	if err == nil && ref.Retired {
		return nil // only silver and quarantine know whether there was such a record
	}
	if err == nil {
		return r.hole(m, before, -1)
	}
	if !errors.Is(err, errFound) {
		return err
	}
	if r.line, err = bronze.Decode(r.Record); err != nil {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s: %w", ref.Key, err))
	}
	switch after := r.line.Record.Offset; {
	case after == r.Offset:
	case ref.Retired:
		r.Record, r.line = nil, bronze.Line{}
	default:
		return r.hole(m, before, after)
	}
	return nil
}

// letGo reports a retired record without a row anywhere: it may have been a tombstone, or its offset a gap.
func (r *tracing) letGo() error {
	return fmt.Errorf("%w: partition %d of bronze has retired its records below offset %d (retain: bronze), and neither silver nor quarantine has a row of this one",
		ErrNoRecord, r.Partition, r.Object.End)
}

// noObject says why no object has the record.
func (r *tracing) noObject(ctx context.Context, reader *bronze.Reader) error {
	partitions, err := reader.Partitions(ctx)
	if err != nil {
		return err
	}
	if len(partitions) == 0 {
		return fmt.Errorf("%w: bronze has nothing of %s yet; the pipeline writes it when it runs", ErrNoRecord, r.Pipeline)
	}
	if !slices.Contains(partitions, r.Partition) {
		names := strings.Trim(strings.ReplaceAll(fmt.Sprint(partitions), " ", ", "), "[]")
		return fmt.Errorf("%w: bronze has nothing of partition %d, but of %s", ErrNoRecord, r.Partition, names)
	}
	last, err := reader.Last(ctx, r.Partition)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: partition %d of bronze ends with offset %d", ErrNoRecord, r.Partition, last.End-1)
}

// hole says why an object that covers the offset has no record of it: before and
// after are the object's nearest records, or -1.
func (r *tracing) hole(m bronze.Meta, before, after int64) error {
	switch m.Seam {
	case bronze.SeamGap:
		return fmt.Errorf("%w: the records from %d:%d to %d:%d were deleted from the topic before they were read, which was %s",
			ErrNoRecord, r.Partition, m.Start, r.Partition, m.End-1, accepted(m))
	case bronze.SeamLog:
		return fmt.Errorf("%w: at %d:%d another log took the topic's place, which was %s", ErrNoRecord, r.Partition, m.Start, accepted(m))
	}
	if m.Start == 0 && before < 0 {
		return fmt.Errorf("%w: partition %d of bronze begins with offset %d, the first that the topic had then", ErrNoRecord, r.Partition, after)
	}
	var near []string
	for _, offset := range []int64{before, after} {
		if offset >= 0 {
			near = append(near, fmt.Sprintf("%d:%d", r.Partition, offset))
		}
	}
	return fmt.Errorf("%w: the topic had a hole there, of a compacted record or a transaction's mark; next to it: %s", ErrNoRecord, strings.Join(near, ", "))
}

// accepted says when an operator has accepted what a seam joins, and why.
func accepted(seam bronze.Meta) string {
	text := "accepted at " + seam.Written.UTC().Format(time.DateTime+" UTC")
	if seam.Why != "" {
		text += " (" + seam.Why + ")"
	}
	return text
}
