package main

import (
	"encoding/json"
	"strconv"
	"time"
)

// visit is one that was made, to be repeated.
type visit struct {
	id, sensor string
	amount     int
	at         time.Time
}

const (
	// repeatShare is how many of a hundred visits repeat one of the last recentVisits.
	repeatShare  = 35
	recentVisits = 300

	// reuse is how much earlier a visit is that has another one's id: by more than
	// the watermark, so that it is one of its own.
	reuse = 3 * time.Hour
)

// visits is a pipeline whose events repeat: of each that is somewhere exactly one
// record is in silver.
var visits = pipeline{
	name: "visits", topic: "soak.visits", partitions: 4, perSecond: 60, located: true, unique: true,
	make: func(m *maker, now time.Time) event {
		key, k := m.next()
		v := m.visit(key, k, now)
		return seal(key, k, map[string]any{
			"visit": v.id, "sensor_id": v.sensor, "amount": v.amount, "visited_at": v.at.Format(time.RFC3339Nano),
		}, "visited_at", "amount")
	},
	numberField: "amount", timeField: "visited_at", badTime: "bad time",
	parse: func(value []byte) (r row, err error) {
		var e struct {
			Visit  string    `json:"visit"`
			Sensor string    `json:"sensor_id"`
			Amount int64     `json:"amount"`
			Time   time.Time `json:"visited_at"`
		}
		err = json.Unmarshal(value, &e)
		return row{id: e.Visit, sensor: e.Sensor, amount: e.Amount, at: e.Time}, err
	},
	refuse: func(r row) (reason, field string) {
		if r.city == nowhere {
			return "somewhere", "city"
		}
		return "", ""
	},
	columns: []string{"visit", "sensor_id", "amount", "epoch_us(visited_at)", orNone("city"), orNone("_unmatched")},
	cells: func(r row) []string {
		return []string{r.id, r.sensor, strconv.FormatInt(r.amount, 10), micros(r.at), r.city, r.unmatched}
	},
	models: []model{{
		name: "daily", keys: 2,
		columns:   []string{"epoch_us(day)", orNone("city"), "visits", "amount"},
		group:     func(r row) []string { return []string{micros(r.at.Truncate(24 * time.Hour)), r.city} },
		aggregate: func(rows []row) []string { return []string{strconv.Itoa(len(rows)), sumAmounts(rows)} },
	}},
}

// visit makes a visit, or repeats one.
func (m *maker) visit(key string, k kind, now time.Time) visit {
	if draw := m.rng.IntN(100); draw < repeatShare && len(m.recent) > 0 {
		v := m.recent[m.rng.IntN(len(m.recent))]
		if draw == 0 { // once: a third of the name would be its neighbour's twin
			v.at = v.at.Add(-reuse)
		}
		return v
	}
	v := visit{key, sensor(m.rng.IntN(sensors)), m.rng.IntN(100), m.time(now)}
	if k == kindFine {
		m.recent = append(m.recent, v)
		m.recent = m.recent[max(0, len(m.recent)-recentVisits):]
	}
	return v
}

// sumAmounts adds the amounts up.
func sumAmounts(rows []row) string {
	sum := int64(0)
	for _, r := range rows {
		sum += r.amount
	}
	return strconv.FormatInt(sum, 10)
}
