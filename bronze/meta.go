package bronze

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"smelt"
)

// Counts count lines.
type Counts struct {
	Count      int64 // lines: one a record
	Tombstones int64 // of these, records without a value
	Oversize   int64 // of these, records over the bound
	Bytes      int64 // before compression
}

func (c Counts) plus(d Counts) Counts {
	return Counts{c.Count + d.Count, c.Tombstones + d.Tombstones, c.Oversize + d.Oversize, c.Bytes + d.Bytes}
}

func (c Counts) minus(d Counts) Counts {
	return Counts{c.Count - d.Count, c.Tombstones - d.Tombstones, c.Oversize - d.Oversize, c.Bytes - d.Bytes}
}

// Meta is an object's metadata: what it holds, and who wrote it. It is in the
// object's user metadata, in decimal and RFC 3339.
type Meta struct {
	Counts
	Chain Counts // of all that the chain ever had up to the object's end

	// Retired counts the records of the object's range that were removed. Such an object begins
	// the chain, so Retired is also what it lacks of Chain.
	Retired Counts

	Start int64 // the object's position
	End   int64 // where the chain goes on: after the last record's offset, and those known to have none
	First int64 // offset of the first record; -1 without records: a seam, or after retirement
	Last  int64 // the offset of the last record; likewise

	Longest int64 // line in bytes, which says what a reader's buffer must hold

	// The least and greatest broker timestamp, in milliseconds since 1970;
	// smelt.NoTimestamp when no record has one.
	MinTimestamp, MaxTimestamp int64

	Cluster string // ids of the source, as smelt.Description has them
	Topic   string
	Base    int64 // what the lake adds to the source's offsets, from the seam before on
	Epoch   int32 // of the last record, or smelt.NoEpoch

	Seam    SeamKind  // why the object is there, if it is a seam
	Why     string    // of a seam: what the operator had to say
	Writer  string    // the writing process and a number of its own: no two objects share it
	Written time.Time // when the object was closed; of a merged one, when the last of its members was

	Members int64 // how many objects were merged into this one; 0 for a writer's
}

// Names of the user metadata.
const (
	metaEnd        = "end"
	metaCount      = "count"
	metaTombstones = "tombstones"
	metaOversize   = "oversize"
	metaBytes      = "bytes"
	metaLongest    = "longest"
	metaFirst      = "first"
	metaLast       = "last"
	metaMin        = "min-timestamp"
	metaMax        = "max-timestamp"
	metaCluster    = "cluster"
	metaTopic      = "topic"
	metaWriter     = "writer"
	metaWritten    = "written"
	metaCodec      = "codec"
	metaMembers    = "members"
	metaBase       = "base"
	metaEpoch      = "epoch"
	metaSeam       = "seam"
	metaWhy        = "why"

	// metaChain begins the names of the counts of the whole chain.
	metaChain = "chain-"
)

// add counts a record that comes after those counted before.
func (m *Meta) add(r *smelt.Record, kind Kind, lineBytes int) {
	if m.Count == 0 {
		m.First = r.Offset
		m.MinTimestamp, m.MaxTimestamp = r.Timestamp, r.Timestamp
	}
	m.Count++
	m.Bytes += int64(lineBytes)
	m.Longest = max(m.Longest, int64(lineBytes))
	m.Last = r.Offset
	m.End = r.Offset + 1 + r.Skip
	m.Epoch = r.Epoch
	switch kind {
	case KindTombstone:
		m.Tombstones++
	case KindOversize:
		m.Oversize++
	}
	if r.Timestamp == smelt.NoTimestamp {
		return
	}
	if m.MinTimestamp == smelt.NoTimestamp || r.Timestamp < m.MinTimestamp {
		m.MinTimestamp = r.Timestamp
	}
	if m.MaxTimestamp == smelt.NoTimestamp || r.Timestamp > m.MaxTimestamp {
		m.MaxTimestamp = r.Timestamp
	}
}

// without is the metadata of an object like this one that has no lines yet.
func (m *Meta) without() Meta {
	none := *m
	none.Counts = Counts{}
	none.Seam, none.Why = "", ""
	none.First, none.Last, none.Longest = -1, -1, 0
	none.MinTimestamp, none.MaxTimestamp = smelt.NoTimestamp, smelt.NoTimestamp
	return none
}

// write writes a line of another object, without its line feed, and counts it. The
// end and the epoch stay: what comes after the last line has been read already.
func (m *Meta) write(w io.Writer, line []byte) error {
	decoded, err := Decode(line)
	if err != nil {
		return err
	}
	end, epoch := m.End, m.Epoch
	m.add(&decoded.Record, decoded.Kind, len(line)+len("\n"))
	m.End, m.Epoch = end, epoch
	if _, err := w.Write(line); err != nil {
		return err
	}
	_, err = w.Write([]byte("\n"))
	return err
}

// user returns the metadata as an object's user metadata.
func (m *Meta) user(codec Codec) map[string]string {
	user := map[string]string{
		metaWriter:  m.Writer,
		metaWritten: m.Written.UTC().Format(time.RFC3339Nano),
		metaCodec:   string(codec),
	}
	for name, n := range m.numbers() {
		user[name] = strconv.FormatInt(*n, 10)
	}
	if m.Members > 0 {
		user[metaMembers] = strconv.FormatInt(m.Members, 10)
	}
	if m.Cluster != "" {
		user[metaCluster] = m.Cluster
	}
	if m.Topic != "" {
		user[metaTopic] = m.Topic
	}
	if m.Epoch != smelt.NoEpoch {
		user[metaEpoch] = strconv.FormatInt(int64(m.Epoch), 10)
	}
	if m.Base != 0 {
		user[metaBase] = strconv.FormatInt(m.Base, 10)
	}
	if m.Seam != "" {
		user[metaSeam], user[metaWhy] = string(m.Seam), strconv.QuoteToASCII(m.Why)
	}
	return user
}

func (m *Meta) numbers() map[string]*int64 {
	return map[string]*int64{
		metaEnd: &m.End, metaFirst: &m.First, metaLast: &m.Last, metaLongest: &m.Longest, metaMin: &m.MinTimestamp, metaMax: &m.MaxTimestamp,
		metaCount: &m.Count, metaTombstones: &m.Tombstones, metaOversize: &m.Oversize, metaBytes: &m.Bytes,
		metaChain + metaCount: &m.Chain.Count, metaChain + metaTombstones: &m.Chain.Tombstones,
		metaChain + metaOversize: &m.Chain.Oversize, metaChain + metaBytes: &m.Chain.Bytes,
	}
}

// metaOf reads the metadata of the object called name.
func metaOf(name Name, o smelt.Object) (Meta, error) {
	m := Meta{Start: name.Start, Cluster: o.Meta[metaCluster], Topic: o.Meta[metaTopic], Writer: o.Meta[metaWriter]}
	var err error
	for field, n := range m.numbers() {
		if *n, err = strconv.ParseInt(o.Meta[field], 10, 64); err != nil {
			return Meta{}, fmt.Errorf("metadata %q of %s: %w", field, o.Key, err)
		}
	}
	if m.Written, err = time.Parse(time.RFC3339Nano, o.Meta[metaWritten]); err != nil {
		return Meta{}, fmt.Errorf("metadata %q of %s: %w", metaWritten, o.Key, err)
	}
	if name.Merged() {
		if m.Members, err = strconv.ParseInt(o.Meta[metaMembers], 10, 64); err != nil {
			return Meta{}, fmt.Errorf("metadata %q of %s: %w", metaMembers, o.Key, err)
		}
	}
	if name.Retired {
		m.Retired = m.Chain.minus(m.Counts)
	}
	if err := m.readLog(o); err != nil {
		return Meta{}, err
	}
	if !m.fits(name) {
		return Meta{}, fmt.Errorf("metadata of %s: start %d, first %d, last %d, end %d, count %d do not fit together",
			o.Key, name.Start, m.First, m.Last, m.End, m.Count)
	}
	return m, nil
}

// fits says whether the metadata can be that of an object called name.
func (m *Meta) fits(name Name) bool {
	if m.End <= name.Start || name.Merged() && m.End != name.End || m.Retired.Count < 0 {
		return false
	}
	if m.Count == 0 {
		return name.Retired || m.Seam != "" && !name.Merged()
	}
	return m.Count > 0 && m.First >= name.Start && m.Last >= m.First && m.End > m.Last
}
