package events_test

import (
	"fmt"
	"testing"
	"time"

	"smelt/internal/columns"
	"smelt/internal/events"
)

// TestEveryMonth reads the first and the last days of every month that can be
// written, and days that are none, as dates and as times.
func TestEveryMonth(t *testing.T) {
	t.Parallel()
	declared := declare("d date", "t timestamptz")
	decoder, batch := events.NewJSON(declared), columns.New(declared)
	defer batch.Free()
	for year := range 10_000 {
		batch.Reset()
		for month := range 14 {
			for _, day := range []int{0, 1, 27, 28, 29, 30, 31, 32} {
				want := time.Date(year, time.Month(month), day, 23, 59, 58, 0, time.UTC)
				value := fmt.Appendf(nil, `{"d":"%04d-%02d-%02d","t":"%04[1]d-%02[2]d-%02[3]dT23:59:58"}`, year, month, day)
				row := batch.Add()
				fault := decoder.Decode(batch, row, batch.Keep(value))
				if want.Day() != day || want.Month() != time.Month(month) {
					if fault.Reason != events.ReasonBadTime {
						t.Fatalf("%s: %+v, want a bad time", value, fault)
					}
					continue
				}
				if d, at := batch.Columns[0].Int(row)*86400, batch.Columns[1].Int(row); fault.Reason != "" || d != want.Unix()-86398 || at != want.UnixMicro() {
					t.Fatalf("%s: %+v, %d, %d, want %s", value, fault, d, at, want)
				}
			}
		}
	}
}

// TestEveryZone reads a time in every zone that can be written.
func TestEveryZone(t *testing.T) {
	t.Parallel()
	declared := declare("t timestamptz")
	decoder, batch := events.NewJSON(declared), columns.New(declared)
	defer batch.Free()
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).UnixMicro()
	for hours := range 100 {
		batch.Reset()
		for minutes := range 100 {
			for sign, direction := range map[string]int64{"+": -1, "-": 1} {
				for _, colon := range []string{"", ":"} {
					value := fmt.Appendf(nil, `{"t":"2026-11-29T12:00:00%s%02d%s%02d"}`, sign, hours, colon, minutes)
					row := batch.Add()
					fault := decoder.Decode(batch, row, batch.Keep(value))
					good := hours <= 15 && minutes <= 59
					want := noon + direction*int64(hours*60+minutes)*60_000_000
					if good != (fault.Reason == "") || good && batch.Columns[0].Int(row) != want {
						t.Fatalf("%s: %+v, %s", value, fault, show(batch.Columns[0], row))
					}
				}
			}
		}
	}
}
