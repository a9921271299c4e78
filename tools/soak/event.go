package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// kind is what an event was made to be. Its record says so in a header, so that the
// truth needs no second opinion on what is wrong with a value.
type kind string

const (
	kindFine      kind = "fine"
	kindTombstone kind = "tombstone" // no value
	kindCut       kind = "cut"       // JSON that is cut off
	kindBinary    kind = "binary"    // no UTF-8
	kindArray     kind = "array"     // JSON, but no object
	kindType      kind = "type"      // a number as a text
	kindMissing   kind = "missing"   // a field that has to be there is not
	kindFuture    kind = "future"    // an event time of days ahead
	kindTime      kind = "time"      // an event time that is none
	kindUnit      kind = "unit"      // a unit that silver's expectation does not know
	kindLarge     kind = "large"     // over the bound of a record
)

// kindHeader is the header that tells a record's kind.
const kindHeader = "made"

const (
	// recordMax is the bound of a record, in bytes: low, so that records over it
	// cost little.
	recordMax = 16 << 10

	// oddShare is how many of a hundred events are not fine.
	oddShare = 6

	// lateShare is how many of a hundred events are late, by up to lateness.
	lateShare = 12
	lateness  = 60 * time.Hour
)

// event is what becomes a record.
type event struct {
	key   string
	kind  kind
	value []byte // nil: a tombstone
}

// maker makes the events of one pipeline, the same ones for the same seed, but for
// their times.
type maker struct {
	rng    *rand.Rand
	prefix string // of keys
	n      int
	recent []visit // that may be repeated
}

// newMaker makes the maker of a pipeline.
func newMaker(seed uint64, pipeline string) *maker {
	return &maker{rng: random(seed, "events "+pipeline), prefix: pipeline}
}

// next gives an event its key, and its kind if it will be odd.
func (m *maker) next(odd ...kind) (key string, k kind) {
	m.n++
	key = fmt.Sprintf("%s-%d", m.prefix, m.n)
	if m.rng.IntN(100) >= oddShare {
		return key, kindFine
	}
	odd = append(odd, kindTombstone, kindCut, kindBinary, kindArray, kindType, kindMissing, kindFuture, kindTime, kindLarge)
	return key, odd[m.rng.IntN(len(odd))]
}

// time is a little before now, or long before, in whole milliseconds.
func (m *maker) time(now time.Time) time.Time {
	back := time.Duration(m.rng.IntN(20_000)) * time.Millisecond
	if m.rng.IntN(100) < lateShare {
		back += time.Duration(m.rng.Int64N(int64(lateness)))
	}
	return now.Add(-back).UTC().Truncate(time.Millisecond)
}

// seal makes the event of a kind: of fields, in which what is odd is put by their
// names.
func seal(key string, k kind, fields map[string]any, timeField, numberField string) event {
	switch k {
	case kindTombstone:
		return event{key, k, nil}
	case kindBinary:
		return event{key, k, []byte("\xff\xfe" + key)}
	case kindArray:
		return event{key, k, fmt.Appendf(nil, `["%s", 1, 2]`, key)}
	case kindType:
		fields[numberField] = fmt.Sprint(fields[numberField])
	case kindMissing:
		delete(fields, numberField)
	case kindFuture:
		fields[timeField] = shifted(fields[timeField], 100*time.Hour)
	case kindTime:
		fields[timeField] = "yesterday"
	case kindLarge:
		fields["padding"] = strings.Repeat("x", recordMax)
	}
	value, err := json.Marshal(fields)
	if err != nil {
		panic(err) // text and finite numbers always encode
	}
	if k == kindCut {
		value = value[:len(value)-1]
	}
	return event{key, k, value}
}

// shifted is an event time, as text or in milliseconds since 1970, from later on.
func shifted(at any, by time.Duration) any {
	if ms, ok := at.(int64); ok {
		return ms + by.Milliseconds()
	}
	return time.Now().Add(by).UTC().Format(time.RFC3339Nano)
}
