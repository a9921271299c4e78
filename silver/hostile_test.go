package silver_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"smelt"
)

// hostileCase is a line of testdata/sensors-hostile.jsonl.
type hostileCase struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 string  `json:"value_base64"`
	Timestamp   string  `json:"record_timestamp"`
	Expect      struct {
		Layer string          `json:"layer"`
		Field *string         `json:"field"`
		Temp  *float64        `json:"temperature_celsius"`
		City  json.RawMessage `json:"city"`
		ID    string          `json:"sensor_id"`
		Time  string          `json:"event_time"`
	} `json:"expect"`
}

func hostileCases(t *testing.T) []hostileCase {
	t.Helper()
	f, err := os.Open("testdata/sensors-hostile.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []hostileCase
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c hostileCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

func (c hostileCase) record(t *testing.T) smelt.Record {
	t.Helper()
	at := "2026-11-29T12:00:01Z"
	if c.Timestamp != "" {
		at = c.Timestamp
	}
	parsed, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	r := smelt.Record{Timestamp: parsed.UnixMilli()}
	switch {
	case c.ValueBase64 != "":
		if r.Value, err = base64.StdEncoding.DecodeString(c.ValueBase64); err != nil {
			t.Fatal(err)
		}
	case c.Value != nil:
		r.Value = []byte(*c.Value)
	}
	return r
}

const good = `{"sensor_id":"nyc-001","temperature":50,"unit":"F","event_time":"2026-11-29T12:00:00Z"}`

// TestHostile sends every hostile case among good records through the line, all in
// one batch and a record at a time.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int{0, 1} {
		t.Run(fmt.Sprintf("batches of %d bytes", bytes), func(t *testing.T) {
			t.Parallel()
			l := open(t, sensors(t), batches(bytes))
			cases := hostileCases(t)
			for _, c := range cases {
				l.drain(t, value(good, 1795953601000), c.record(t), value(good, 1795953601000))
			}
			silver := map[string]string{}
			for _, r := range l.rows(t, "silver.sensors", "_partition_offset,sensor_id,event_time,temperature_celsius,city,_unmatched") {
				offset, rest, _ := strings.Cut(r, ",")
				silver[offset] = rest
			}
			rejects := map[string]string{}
			for _, r := range l.rows(t, "quarantine.sensors", "_partition_offset,field,reason,raw") {
				offset, rest, _ := strings.Cut(r, ",")
				rejects[offset] = rest
			}
			for i, c := range cases {
				c.check(t, silver, rejects, 3*i+1)
				for _, o := range []int{3 * i, 3*i + 2} {
					if want := "nyc-001,2026-11-29 12:00:00+00,10.0,New York,"; silver[fmt.Sprint(o)] != want {
						t.Errorf("%s: the good record beside it is %q, not %q", c.Name, silver[fmt.Sprint(o)], want)
					}
				}
			}
		})
	}
}

func (c hostileCase) check(t *testing.T, silver, rejects map[string]string, offset int) {
	t.Helper()
	at := fmt.Sprint(offset)
	row, inSilver := silver[at]
	reject, inQuarantine := rejects[at]
	if inSilver != (c.Expect.Layer == "silver") || inQuarantine != (c.Expect.Layer == "quarantine") {
		t.Errorf("%s: silver %q, quarantine %q; want %s", c.Name, row, reject, c.Expect.Layer)
		return
	}
	switch {
	case inQuarantine:
		field := ""
		if c.Expect.Field != nil {
			field = *c.Expect.Field
		}
		got, rest, _ := strings.Cut(reject, ",")
		if got != field {
			t.Errorf("%s: field %q, want %q", c.Name, got, field)
		}
		if c.Value != nil && !strings.HasSuffix(rest, ","+*c.Value) {
			t.Errorf("%s: reason and raw are %q, want the raw value %q", c.Name, rest, *c.Value)
		}
	case inSilver:
		cells := strings.Split(row, ",")
		var temp float64
		fmt.Sscan(cells[2], &temp)
		if c.Expect.Temp != nil && (temp-*c.Expect.Temp > 1e-9 || *c.Expect.Temp-temp > 1e-9) {
			t.Errorf("%s: temperature %s, want %v", c.Name, cells[2], *c.Expect.Temp)
		}
		if string(c.Expect.City) == "null" && cells[3] != "" {
			t.Errorf("%s: city %q, want NULL", c.Name, cells[3])
		}
		if c.Expect.ID != "" && cells[0] != c.Expect.ID {
			t.Errorf("%s: sensor %q, want %q", c.Name, cells[0], c.Expect.ID)
		}
		if c.Expect.Time != "" {
			want, err := time.Parse(time.RFC3339Nano, c.Expect.Time)
			if err != nil {
				t.Fatal(err)
			}
			if got := want.UTC().Format("2006-01-02 15:04:05.999999") + "+00"; cells[1] != got {
				t.Errorf("%s: event time %s, want %s", c.Name, cells[1], got)
			}
		}
	}
}
