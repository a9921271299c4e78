package main

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// readings is a pipeline with a reference table: every record is in silver once, with the current place of its sensor.
var readings = pipeline{
	name: "readings", topic: "soak.readings", partitions: 12, perSecond: 110, located: true,
	make: func(m *maker, now time.Time) event {
		key, k := m.next(kindUnit)
		quarters := m.rng.IntN(400) - 100
		fields := map[string]any{
			"id": key, "sensor_id": sensor(m.rng.IntN(sensors)), "temperature": float64(quarters) / 4,
			"unit": []string{"C", "F"}[m.rng.IntN(2)], "event_time": m.time(now).Format(time.RFC3339Nano),
		}
		if k == kindUnit {
			fields["unit"] = "degrees"
		}
		return seal(key, k, fields, "event_time", "temperature")
	},
	numberField: "temperature", timeField: "event_time", badTime: "bad time",
	parse: func(value []byte) (r row, err error) {
		var e struct {
			ID          string    `json:"id"`
			Sensor      string    `json:"sensor_id"`
			Temperature float64   `json:"temperature"`
			Unit        string    `json:"unit"`
			Time        time.Time `json:"event_time"`
		}
		err = json.Unmarshal(value, &e)
		celsius := e.Temperature
		if e.Unit == "F" {
			celsius = (e.Temperature - 32) * 5 / 9
		}
		return row{id: e.ID, sensor: e.Sensor, celsius: celsius, at: e.Time}, err
	},
	columns: []string{"id", "sensor_id", "epoch_us(event_time)", "temperature_celsius", orNone("city"), orNone("country"), orNone("_unmatched")},
	floats:  []int{4},
	cells: func(r row) []string {
		return []string{r.id, r.sensor, micros(r.at), float(r.celsius), r.city, r.country, r.unmatched}
	},
	models: []model{
		{
			name: "hourly", keys: 3, floats: []int{5, 6},
			columns: []string{"epoch_us(hour)", orNone("city"), orNone("country"), "readings", "millidegrees", "coldest", "warmest"},
			group:   func(r row) []string { return []string{micros(r.at.Truncate(time.Hour)), r.city, r.country} },
			aggregate: func(rows []row) []string {
				sum, coldest, warmest := int64(0), math.Inf(1), math.Inf(-1)
				for _, r := range rows {
					sum += int64(math.Round(r.celsius * 1000))
					coldest, warmest = min(coldest, r.celsius), max(warmest, r.celsius)
				}
				return []string{strconv.Itoa(len(rows)), strconv.FormatInt(sum, 10), float(coldest), float(warmest)}
			},
		},
		{
			name: "minutely", keys: 1,
			columns: []string{"epoch_us(minute)", "readings", "sensors"},
			group:   func(r row) []string { return []string{micros(r.at.Truncate(time.Minute))} },
			aggregate: func(rows []row) []string {
				distinct := map[string]bool{}
				for _, r := range rows {
					distinct[r.sensor] = true
				}
				return []string{strconv.Itoa(len(rows)), strconv.Itoa(len(distinct))}
			},
		},
	},
}
