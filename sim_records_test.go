package smelt_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/pipeline"
)

// recordMax is the record bound of the simulation, in bytes: low, so that
// records over it cost nothing.
const recordMax = 2048

// simSensors are the sensors that there are. The last one never has a location.
var simSensors = []string{"hel-001", "nyc-001", "ber-001", "zzz-999"}

// nowhere is a city that a moody pipeline rejects.
const nowhere = "Nowhere"

// orders is a small pipeline whose events repeat.
func orders(t *testing.T) *smelt.Pipeline {
	t.Helper()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	p, err := pipeline.Read(fstest.MapFS{
		"orders/pipeline.yml": file(`# Orders, each once.
source: {kafka: orders}
events:
  time: placed_at
  watermark: 10m
  columns:
    id:        varchar not null
    amount:    double not null
    placed_at: timestamptz not null
silver:
  unique: [id]
gold:
  daily:    {window: 1d, column: day}
  minutely: {window: 1m, column: minute}
`),
		"orders/silver.sql":   file("SELECT id, amount, placed_at, _partition_id, _partition_offset FROM bronze.orders\n"),
		"orders/daily.sql":    file("SELECT date_trunc('day', placed_at) AS day, count(*) AS orders, count(DISTINCT id) AS ids FROM silver.orders GROUP BY date_trunc('day', placed_at)\n"),
		"orders/minutely.sql": file("SELECT date_trunc('minute', placed_at) AS minute, count(*) AS orders, max(amount) AS most FROM silver.orders GROUP BY date_trunc('minute', placed_at)\n"),
	}, "orders")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sensors is the pipeline that ships.
func sensors(t *testing.T) *smelt.Pipeline {
	t.Helper()
	p, err := pipeline.Read(smelt.Shipped(), "sensors")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// visits is a pipeline whose events repeat, and fit or not by their location.
func visits(t *testing.T) *smelt.Pipeline {
	t.Helper()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	p, err := pipeline.Read(fstest.MapFS{
		"visits/pipeline.yml": file(`# Visits, each once, unless they are nowhere.
source: {kafka: visits}
events:
  time: visited_at
  watermark: 10m
  columns:
    visit:      varchar not null
    sensor_id:  varchar not null
    amount:     double not null
    visited_at: timestamptz not null
references:
  locations: {table: public.locations, key: sensor_id, on: sensor_id}
silver:
  partition: day(visited_at)
  unique: [visit]
  expect:
    somewhere: city IS DISTINCT FROM 'Nowhere'
  audit:
    the same visits: (SELECT count(*) FROM (SELECT visit FROM new EXCEPT SELECT visit FROM old)) >= 0
gold:
  daily: {window: 1d, column: day}
`),
		"visits/silver.sql": file("SELECT visit, sensor_id, amount, visited_at, city, country, _partition_id, _partition_offset FROM bronze.visits LEFT JOIN reference.locations USING (sensor_id)\n"),
		"visits/daily.sql":  file("SELECT date_trunc('day', visited_at) AS day, city, count(*) AS visits FROM silver.visits GROUP BY date_trunc('day', visited_at), city\n"),
	}, "visits")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Where a record ends.
const (
	inSilver     = "silver"
	inQuarantine = "quarantine"
	inNeither    = "neither" // a tombstone
)

// made is a record as its topic has it, and what is to become of it.
type made struct {
	smelt.Record
	layer  string
	unique string   // a key of which one record alone ends in silver, the others in quarantine
	reason string   // in quarantine; "" for any
	field  string   // in quarantine
	id     string   // in silver; "" for any
	sensor string   // whose location silver has; "": none is looked up
	number *float64 // in silver; nil for any
	at     time.Time
}

// maker makes the records of a pipeline.
type maker struct {
	rng     *rand.Rand
	now     time.Time // of the broker
	hostile []made
	sent    []made // orders, to be repeated
	next    int
}

// start is when the simulated events begin: not on an hour, and near the end of a day.
var start = time.Date(2026, 11, 29, 21, 55, 0, 0, time.UTC)

// sensor makes a reading, or something that is none.
func (m *maker) sensor() made {
	m.now = m.now.Add(time.Duration(m.rng.IntN(240)) * time.Second)
	switch n := m.rng.IntN(20); {
	case n < 4:
		return m.hostile[m.rng.IntN(len(m.hostile))]
	case n < 6:
		return m.odd()
	}
	at, sensor := m.eventTime(), simSensors[m.rng.IntN(len(simSensors))]
	degrees := float64(m.rng.IntN(10000)-2000) / 100
	unit := []string{"C", "F", "K", "c"}[m.rng.IntN(4)]
	celsius := degrees
	switch unit {
	case "F":
		celsius = (degrees - 32) * 5 / 9
	case "K":
		celsius = degrees - 273.15
	}
	r := m.envelope(fmt.Appendf(nil, `{"sensor_id":%q,"temperature":%v,"unit":%q,"event_time":%q}`, sensor, degrees, unit, at.Format(time.RFC3339Nano)))
	return made{Record: r, layer: inSilver, id: sensor, sensor: sensor, number: &celsius, at: at}
}

// visit makes a visit, or repeats an earlier one, perhaps at another sensor.
func (m *maker) visit() made {
	m.now = m.now.Add(time.Duration(m.rng.IntN(120)) * time.Second)
	id, at := "", time.Time{}
	switch n := m.rng.IntN(20); {
	case n < 2:
		return m.odd()
	case n < 11 && len(m.sent) > 0:
		first := m.sent[m.rng.IntN(len(m.sent))]
		id, at = first.unique, first.at.Add(time.Duration(m.rng.IntN(9))*time.Minute)
	default:
		m.next++
		id, at = fmt.Sprintf("visit-%d", m.next), m.eventTime()
	}
	amount, sensor := float64(m.rng.IntN(100)), simSensors[m.rng.IntN(len(simSensors))]
	r := m.envelope(fmt.Appendf(nil, `{"visit":%q,"sensor_id":%q,"amount":%v,"visited_at":%q}`, id, sensor, amount, at.Format(time.RFC3339Nano)))
	v := made{Record: r, layer: inSilver, unique: id, id: id, sensor: sensor, number: &amount, at: at}
	if len(m.sent) < m.next {
		m.sent = append(m.sent, v)
	}
	return v
}

// order makes an order, or repeats an earlier one, with a time that is a little
// off.
func (m *maker) order() made {
	m.now = m.now.Add(time.Duration(m.rng.IntN(120)) * time.Second)
	switch n := m.rng.IntN(20); {
	case n < 2:
		return m.odd()
	case n < 10 && len(m.sent) > 0:
		first := m.sent[m.rng.IntN(len(m.sent))]
		return m.placed(first.unique, first.at.Add(time.Duration(m.rng.IntN(9))*time.Minute))
	}
	m.next++
	o := m.placed(fmt.Sprintf("order-%d", m.next), m.eventTime())
	m.sent = append(m.sent, o)
	return o
}

func (m *maker) placed(id string, at time.Time) made {
	amount := float64(m.rng.IntN(100))
	r := m.envelope(fmt.Appendf(nil, `{"id":%q,"amount":%v,"placed_at":%q}`, id, amount, at.Format(time.RFC3339Nano)))
	return made{Record: r, layer: inSilver, unique: id, id: id, number: &amount, at: at}
}

// eventTime is a little before now, or long before.
func (m *maker) eventTime() time.Time {
	back := time.Duration(m.rng.IntN(60_000)) * time.Millisecond
	if m.rng.IntN(8) == 0 {
		back += time.Duration(m.rng.IntN(60)) * time.Hour
	}
	return m.now.Add(-back)
}

// odd makes a record that fits no pipeline.
func (m *maker) odd() made {
	switch m.rng.IntN(3) {
	case 0:
		return made{Record: m.envelope(nil), layer: inNeither}
	case 1:
		value := `{"much":"` + strings.Repeat("x", recordMax) + `"}`
		return made{Record: m.envelope([]byte(value)), layer: inQuarantine, reason: "too large"}
	}
	return made{Record: m.envelope([]byte(`{"cut off":`)), layer: inQuarantine, reason: "not json"}
}

// envelope puts a value into a record with or without the rest.
func (m *maker) envelope(value []byte) smelt.Record {
	r := smelt.Record{Timestamp: m.now.UnixMilli(), Value: value}
	switch m.rng.IntN(6) {
	case 0:
		r.Key = []byte("a key")
	case 1:
		r.Key = []byte{0xff, 0x00}
	case 2:
		r.Timestamp = smelt.NoTimestamp
	case 3:
		r.Headers = []smelt.Header{{Name: "trace", Value: []byte("1")}, {Name: "value", Value: nil}, {Name: "b", Value: []byte{0xfe}}}
	}
	return r
}

// hostileRecords reads the cases of silver's tests.
func hostileRecords(t *testing.T) []made {
	t.Helper()
	f, err := os.Open("silver/testdata/sensors-hostile.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []made
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c struct {
			Value     *string `json:"value"`
			Base64    string  `json:"value_base64"`
			Timestamp string  `json:"record_timestamp"`
			Expect    struct {
				Layer string   `json:"layer"`
				Field string   `json:"field"`
				Temp  *float64 `json:"temperature_celsius"`
				ID    string   `json:"sensor_id"`
			} `json:"expect"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		at := start
		if c.Timestamp != "" {
			if at, err = time.Parse(time.RFC3339, c.Timestamp); err != nil {
				t.Fatal(err)
			}
		}
		m := made{Record: smelt.Record{Timestamp: at.UnixMilli()}, layer: c.Expect.Layer, field: c.Expect.Field, id: c.Expect.ID, number: c.Expect.Temp}
		switch {
		case c.Base64 != "":
			if m.Value, err = base64.StdEncoding.DecodeString(c.Base64); err != nil {
				t.Fatal(err)
			}
		case c.Value != nil:
			m.Value = []byte(*c.Value)
		default:
			m.layer = inNeither
		}
		out = append(out, m)
	}
	return out
}

// sameRecord says whether bronze has a record as it was received, but for line
// breaks between the tokens of an embedded value.
func sameRecord(got, want smelt.Record) bool {
	if len(want.Key)+len(want.Value) > recordMax {
		want.Value, want.Headers = nil, nil
	}
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	if got.Partition != want.Partition || got.Offset != want.Offset || got.Timestamp != want.Timestamp ||
		!same(got.Key, want.Key) || len(got.Headers) != len(want.Headers) {
		return false
	}
	for i, h := range want.Headers {
		if got.Headers[i].Name != h.Name || !same(got.Headers[i].Value, h.Value) {
			return false
		}
	}
	return same(got.Value, want.Value) || got.Value != nil && same(got.Value, bytes.ReplaceAll(want.Value, []byte("\n"), []byte(" ")))
}
