package events_test

import (
	"testing"

	"smelt"
	"smelt/internal/columns"
	"smelt/internal/events"
)

// sample is an event and what is declared of it.
type sample struct {
	name     string
	declared []smelt.Column
	value    string
}

func samples() []sample {
	return []sample{
		{"fleet", declare("tenantId varchar!", "deviceId varchar!", "eventId varchar!", "recordedAt timestamptz!", "metric varchar!", "value double", "severity varchar"),
			`{"tenantId":"fleet-a","deviceId":"vehicle-7","eventId":"01J8M2Y0Q9S8V7T6R5P4N3K2H1","recordedAt":"2026-09-12T14:30:00Z","metric":"battery_pct","value":81.4,"severity":"normal"}`},
		{"sensors", declare("sensor_id varchar!", "temperature double!", "unit varchar!", "event_time timestamptz!"),
			`{"sensor_id":"hel-001","temperature":21.5,"unit":"C","event_time":"2026-11-29T12:00:00.123Z"}`},
		{"every type", everyType(), everyValue},
		{"3 of 25 members", declare("id varchar!", "at timestamptz!", "total decimal(10,2)"), manyMembers},
	}
}

const manyMembers = `{"id":"ord-000123","type":"order.created","version":3,"at":"2026-11-29T12:00:00.123Z","source":"checkout","trace":"4bf92f3577b34da6a3ce929d0e0e4736",
	"customer":{"id":"c-77","name":"Ada Lovelace","email":"ada@example.org","tags":["vip","eu"]},"currency":"EUR","net":84.03,"tax":15.97,"total":100.00,"discount":null,"paid":true,
	"method":"card","items":[{"sku":"A-1","n":2,"price":25.5},{"sku":"B-2","n":1,"price":49}],"ip":"192.0.2.7","agent":"Mozilla/5.0 (X11; Linux x86_64)","locale":"fi-FI","zip":"00100",
	"city":"Helsinki","country":"FI","channel":"web","campaign":null,"retries":0,"flags":[]}`

func BenchmarkJSON(b *testing.B) {
	for _, s := range samples() {
		b.Run(s.name, func(b *testing.B) {
			decoder, batch := events.NewJSON(s.declared), columns.New(s.declared)
			defer batch.Free()
			value := batch.Keep([]byte(s.value))
			b.ReportAllocs()
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				if batch.Len() == 2048 {
					batch.Reset()
					value = batch.Keep([]byte(s.value))
				}
				if fault := decoder.Decode(batch, batch.Add(), value); fault != (events.Fault{}) {
					b.Fatal(fault)
				}
			}
		})
	}
}

// TestNoAllocations decodes good events and wants no memory of Go's heap.
func TestNoAllocations(t *testing.T) {
	for _, s := range samples() {
		decoder, batch := events.NewJSON(s.declared), columns.New(s.declared)
		value := []byte(s.value)
		round := func() {
			batch.Reset()
			kept := batch.Keep(value)
			for range 100 {
				if fault := decoder.Decode(batch, batch.Add(), kept); fault != (events.Fault{}) {
					t.Fatal(fault)
				}
			}
		}
		round()
		if n := testing.AllocsPerRun(10, round); n != 0 {
			t.Errorf("%s: %v allocations in 100 events", s.name, n)
		}
		batch.Free()
	}
}
