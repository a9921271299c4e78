package bronze

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"smelt"
)

// SeamKind says what a seam joins.
type SeamKind string

const (
	// SeamGap joins a chain with its log, which no longer has the next records. The seam covers the
	// missing offsets.
	SeamGap SeamKind = "gap"

	// SeamLog joins a chain with another log: of a re-created topic, of another cluster, or one that
	// was truncated. The seam covers one offset and says what is added to the log's offsets from
	// there on.
	SeamLog SeamKind = "log"
)

// Misfit says why the log of a partition does not continue its chain.
type Misfit string

const (
	MisfitGap   Misfit = "gap"   // what comes next was deleted before it was read
	MisfitBack  Misfit = "back"  // it ends before what the lake has
	MisfitOther Misfit = "other" // it is of another topic or cluster
)

// Stop is the error of a partition whose log does not continue its chain. It is a
// smelt.ErrStopped, and the source's trouble.
type Stop struct {
	Pipeline  string
	Partition int32
	Misfit    Misfit
	Last      Meta              // of the chain's last object
	Source    smelt.Description // the ids of now; without extents
	Held      smelt.Extent      // what the log holds
}

// Continue says where a source goes on with a partition, by its own offsets, after
// the last object of the chain. Where its log does not continue the chain it is a *Stop.
func Continue(pipeline string, partition int32, last Meta, source smelt.Description, held smelt.Extent) (next int64, err error) {
	next = last.End - last.Base
	stop := &Stop{Pipeline: pipeline, Partition: partition, Last: last, Source: smelt.Description{Cluster: source.Cluster, Topic: source.Topic}, Held: held}
	switch {
	case !last.sameLog(source):
		stop.Misfit = MisfitOther
	case next < held.Start:
		stop.Misfit = MisfitGap
	case next > held.End:
		stop.Misfit = MisfitBack
	default:
		return next, nil
	}
	return 0, stop
}

// Stops finds the partitions whose logs do not continue their chains, in rising order. ends has
// the last object of each chain. Partitions that the source no longer has are left out. The
// source must be described with the epochs of ends; otherwise records that an open
// transaction holds back count as lost.
func Stops(pipeline string, ends map[int32]Meta, source smelt.Description) (stops []*Stop) {
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		held, there := source.Partitions[id]
		if !there {
			continue
		}
		last := ends[id]
		if shared, ok := source.Shared[id]; ok && last.sameLog(source) { // another log's epochs are others
			held.End = max(held.Start, shared)
		}
		var stop *Stop
		if _, err := Continue(pipeline, id, last, source, held); errors.As(err, &stop) {
			stops = append(stops, stop)
		}
	}
	return stops
}

// sameLog says whether an object is of a source's topic: by the topic's id or,
// where one of the two has none, the cluster's. A re-created topic begins at 0
// again and may have grown past the offset at which the lake ends.
func (m *Meta) sameLog(source smelt.Description) bool {
	was, is := m.Topic, source.Topic
	if was == "" || is == "" {
		was, is = m.Cluster, source.Cluster
	}
	return was == is || was == "" || is == ""
}

// Next is where the lake goes on, by the offsets of the log that it has read.
func (s *Stop) Next() int64 { return s.Last.End - s.Last.Base }

// Error says what is wrong, and what an operator may do.
func (s *Stop) Error() string {
	return fmt.Sprintf("%s: %s. Nothing is skipped until you decide: bring back what was there, or %s", s.What(), s.Wrong(), s.choice())
}

// What says what is stopped. It is the beginning of the error and does not change while the log
// moves on.
func (s *Stop) What() string {
	return fmt.Sprintf("partition %d of %s is stopped", s.Partition, s.Pipeline)
}

// Wrong says what is wrong.
func (s *Stop) Wrong() string {
	switch s.Misfit {
	case MisfitGap:
		return fmt.Sprintf("the lake goes on at offset %d, but the log begins at %d: what is in between was deleted before it was read", s.Next(), s.Held.Start)
	case MisfitBack:
		return fmt.Sprintf("the lake goes on at offset %d, but what it was filled from ends at %d in the log: the log has lost records, or was brought back from a backup", s.Next(), s.Held.End)
	}
	what, was, is := "topic", s.Last.Topic, s.Source.Topic
	if was == "" || is == "" {
		what, was, is = "cluster", s.Last.Cluster, s.Source.Cluster
	}
	return fmt.Sprintf("the lake was filled from %s %s up to offset %d, but this is %s %s, which holds %d to %d: %s",
		what, was, s.Next(), what, is, s.Held.Start, s.Held.End, s.how())
}

// how says how another log came to be there.
func (s *Stop) how() string {
	was, is := s.Last.Cluster, s.Source.Cluster
	switch {
	case was == "" || is == "":
		return "it was deleted and re-created, or another cluster took its place"
	case was == is:
		return "it was deleted and re-created"
	}
	return fmt.Sprintf("cluster %s took the place of cluster %s", is, was)
}

// From is where to go on in the log, by its offsets, so that nothing is left out that
// it holds and the lake has not.
func (s *Stop) From() int64 {
	if s.Misfit == MisfitBack {
		return s.Held.End
	}
	return s.Held.Start
}

// Command accepts the log as it is now.
func (s *Stop) Command() string {
	if s.Misfit == MisfitGap {
		return "smelt source accept-gap " + s.Pipeline
	}
	return "smelt source switch " + s.Pipeline
}

func (s *Stop) choice() string {
	if s.Misfit == MisfitGap {
		return "accept the gap: " + s.Command()
	}
	return "continue with the log as it is now: " + s.Command()
}

// Unwrap gives the kinds of the error.
func (s *Stop) Unwrap() []error { return []error{smelt.ErrSource, smelt.ErrStopped} }

// WhyMax is how long the reason of a seam may be, as a quoted string of ASCII: an
// object's metadata has 2 KiB in all.
const WhyMax = 512

// ErrMoved is the error of a chain that has been continued since it was looked at.
var ErrMoved = errors.New("the chain has been continued meanwhile: look again (smelt source)")

// Sew joins a stopped chain with the log as it is now, by a seam at the chain's end, and returns
// the seam. from is the log's next offset; for a gap it is the beginning of the log. Records
// below it that the lake does not have are given up. The codec must be that of the pipeline's
// writers. If the chain no longer ends where the Stop says, Sew fails and changes nothing.
func Sew(ctx context.Context, store smelt.Store, stop *Stop, from int64, why string, codec Codec) (Meta, error) {
	reader := NewReader(store, stop.Pipeline)
	last, err := reader.Last(ctx, stop.Partition)
	if err != nil {
		return Meta{}, err
	}
	if last.End != stop.Last.End || last.Writer != stop.Last.Writer {
		return Meta{}, ErrMoved
	}
	seam := last.without()
	seam.Members, seam.Start = 0, last.End
	seam.Cluster, seam.Topic = stop.Source.Cluster, stop.Source.Topic
	seam.Writer, seam.Written, seam.Why = "operator-"+rand.Text(), time.Now(), why
	if stop.Misfit == MisfitGap {
		seam.Seam, seam.End = SeamGap, stop.Held.Start+last.Base
	} else {
		seam.Seam, seam.End = SeamLog, last.End+1
		seam.Base = seam.End - from
		if stop.Misfit == MisfitOther || from > stop.Held.End { // the epoch does not apply to records before from
			seam.Epoch = smelt.NoEpoch
		}
	}
	name := Name{Pipeline: stop.Pipeline, Partition: stop.Partition, Start: seam.Start, Codec: codec}
	if !seam.fits(name) {
		return Meta{}, fmt.Errorf("a seam of partition %d of %s from %d to %d: this is a bug in smelt, and nothing was written", stop.Partition, stop.Pipeline, seam.Start, seam.End)
	}
	body, err := noLines(codec)
	if err != nil {
		return Meta{}, err
	}
	err = store.Put(ctx, name.Key(), bytes.NewReader(body), smelt.PutOptions{IfAbsent: true, Meta: seam.user(codec)})
	if errors.Is(err, smelt.ErrExists) { // perhaps its own, after a reply that was lost
		there, err := reader.stat(ctx, name)
		if err == nil && there.Writer != seam.Writer {
			err = ErrMoved
		}
		return there, err
	}
	return seam, smelt.Mark(smelt.ErrStore, err)
}

// noLines is the body of an object without lines.
func noLines(codec Codec) ([]byte, error) {
	enc, err := newEncoder(codec)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	enc.Reset(&body)
	err = enc.Close()
	return body.Bytes(), err
}

// seamBytes is larger than a seam and smaller than any object with a line. So only smaller objects can be seams.
const seamBytes = 48

// mayBeSeam says whether an object is so small that it may be a seam.
func (ref *Ref) mayBeSeam() bool { return !ref.Merged() && ref.Size < seamBytes }

// Seams returns the seams of a partition's chain that are still there, in their order.
func (r *Reader) Seams(ctx context.Context, partition int32) (seams []Meta, err error) {
	chain, err := r.Cover(ctx, partition)
	if err != nil {
		return nil, err
	}
	for _, ref := range chain {
		if !ref.mayBeSeam() {
			continue
		}
		m, err := r.stat(ctx, ref.Name)
		if err != nil {
			return nil, err
		}
		if m.Seam != "" {
			seams = append(seams, m)
		}
	}
	return seams, nil
}

// readLog reads what the metadata of an object says of its log, and of seams, which
// that of most does not mention.
func (m *Meta) readLog(o smelt.Object) error {
	m.Epoch = smelt.NoEpoch
	epoch := int64(m.Epoch)
	for name, n := range map[string]*int64{metaBase: &m.Base, metaEpoch: &epoch} {
		text, ok := o.Meta[name]
		if !ok {
			continue
		}
		var err error
		if *n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("metadata %q of %s: %w", name, o.Key, err)
		}
	}
	m.Epoch = int32(epoch)
	m.Seam = SeamKind(o.Meta[metaSeam])
	if m.Seam == "" {
		return nil
	}
	var err error
	if m.Why, err = strconv.Unquote(o.Meta[metaWhy]); err != nil {
		return fmt.Errorf("metadata %q of %s: %w", metaWhy, o.Key, err)
	}
	return nil
}
