//go:build bench

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// What the fleet of the benches is: 4 tenants with 25 vehicles each, and 3 metrics.
const (
	fleetTenants  = 4
	fleetVehicles = 25

	// fleetPace is how far apart events are: a vehicle and metric has 20 a minute.
	fleetPace = 10 * time.Millisecond

	// fleetTwins says that one event in so many is a duplicate, and fleetBack of how
	// old an event at most: six minutes, which is less than the watermark.
	fleetTwins = 20
	fleetBack  = 36_000
)

// fleetStart is the time of the first event: all of 2,000,000 are of one day.
var fleetStart = time.Date(2026, 9, 12, 14, 30, 0, 0, time.UTC)

// fleetMetrics are what vehicles send.
var fleetMetrics = []struct {
	name        string
	mean, swing float64
}{{"battery_pct", 60, 35}, {"speed_kmh", 65, 60}, {"motor_temp_c", 70, 25}}

// fleetEvent makes event i of a fleet, always the same for a seed. Exactly
// n/fleetTwins of the first n events are duplicates.
func fleetEvent(seed uint64, i int64) []byte {
	source := rand.NewPCG(seed, uint64(i))
	random := rand.New(source)
	if i%fleetTwins == fleetTwins-1 {
		of := i - 1 - random.Int64N(min(i, fleetBack))
		if of%fleetTwins == fleetTwins-1 {
			of--
		}
		return fleetEvent(seed, of)
	}
	at := fleetStart.Add(time.Duration(i) * fleetPace)
	vehicle := random.IntN(fleetTenants * fleetVehicles)
	metric := fleetMetrics[random.IntN(len(fleetMetrics))]
	wave := math.Sin(float64(i)*fleetPace.Minutes()/7 + float64(vehicle))
	severity := "normal"
	if random.IntN(25) == 0 {
		severity = "warning"
	}
	return fmt.Appendf(nil, `{"tenantId":"fleet-%c","deviceId":"vehicle-%d","eventId":"%s","recordedAt":"%s","metric":"%s","value":%.1f,"severity":"%s"}`,
		'a'+vehicle%fleetTenants, vehicle/fleetTenants+1, ulid(at, source), at.Format("2006-01-02T15:04:05.000Z"),
		metric.name, metric.mean+metric.swing*wave+random.NormFloat64(), severity)
}

// ulid writes a time and 80 random bits as a ULID: 26 digits, five bits each.
func ulid(at time.Time, random *rand.PCG) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	const ofTime = 10
	var id [26]byte
	for i, ms := ofTime-1, at.UnixMilli(); i >= 0; i, ms = i-1, ms>>5 {
		id[i] = digits[ms&31]
	}
	for i := ofTime; i < len(id); i += 8 {
		bits := random.Uint64()
		for j := range 8 {
			id[i+j] = digits[bits>>(5*j)&31]
		}
	}
	return string(id[:])
}
