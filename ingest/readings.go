package ingest

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"time"
)

// Readings makes the demo's sensor readings. They depend only on the seed and on the times asked for.
type Readings struct {
	random *rand.Rand
	mess   float64
	turn   int
}

// sensor is a place's climate, in degrees Celsius, and the unit its sensor uses.
type sensor struct {
	id, unit     string
	mean, swing  float64 // over a day
	noonUTC      float64 // the hour at which the sun is highest
	fromCelsius  func(float64) float64
	frontsPeriod time.Duration // how long warm and cold weather take turns
}

func sensors() []sensor {
	return []sensor{
		{"hel-001", "C", 6, 3.5, 10.3, func(c float64) float64 { return c }, 83 * time.Hour},
		{"nyc-001", "F", 13, 5, 16.9, func(c float64) float64 { return c*9/5 + 32 }, 101 * time.Hour},
		{"tyo-001", "K", 16, 4, 2.7, func(c float64) float64 { return c + 273.15 }, 127 * time.Hour},
	}
}

const (
	// frontsSwing is how far the weather departs from the mean, in °C.
	frontsSwing = 3.0

	// noise is the standard deviation of a reading, in °C.
	noise = 0.15

	// warmest is how long after noon a day is warmest.
	warmest = 2.5 // hours

	// lateMin and lateSpan say how late a late reading is: 2 to 30 minutes.
	lateMin  = 2 * time.Minute
	lateSpan = 28 * time.Minute
)

// NewReadings starts a series. About mess of its readings (0 to 1) are in some
// trouble: late by minutes, or not as they should be.
func NewReadings(seed uint64, mess float64) *Readings {
	return &Readings{random: rand.New(rand.NewPCG(seed, seed)), mess: mess}
}

// Next makes a reading of the next sensor at a time: its id and a JSON object,
// or what a faulty sensor sends in its place.
func (r *Readings) Next(now time.Time) (id string, value []byte) {
	all := sensors()
	s := all[r.turn%len(all)]
	r.turn++

	trouble, kind := r.random.Float64() < r.mess, r.random.IntN(8)
	if trouble && kind < 4 {
		now = now.Add(-lateMin - time.Duration(r.random.Int64N(int64(lateSpan))))
	}
	reading := reading{
		Sensor:      s.id,
		Temperature: round(s.fromCelsius(s.celsius(now) + noise*r.random.NormFloat64())),
		Unit:        s.unit,
		Time:        now.UTC().Format("2006-01-02T15:04:05.000Z"),
	}
	if trouble && kind >= 4 {
		return s.id, spoil(reading, kind-4)
	}
	return s.id, encode(reading)
}

// celsius is the temperature at a sensor's place.
func (s sensor) celsius(at time.Time) float64 {
	hours := at.Sub(time.Unix(0, 0)).Hours()
	day := math.Cos((hours - s.noonUTC - warmest) / 24 * 2 * math.Pi)
	fronts := math.Sin(hours / s.frontsPeriod.Hours() * 2 * math.Pi)
	return s.mean + s.swing*day + frontsSwing*fronts
}

func round(t float64) float64 { return math.Round(t*100) / 100 }

type reading struct {
	Sensor      string `json:"sensor_id"`
	Temperature any    `json:"temperature,omitempty"`
	Unit        string `json:"unit"`
	Time        string `json:"event_time"`
}

// spoil damages a reading like faulty sensors do: it cuts it off, sends the number as text, omits it, or
// uses an unknown unit.
func spoil(r reading, kind int) []byte {
	switch kind {
	case 0:
		value := encode(r)
		return value[:len(value)*2/3]
	case 1:
		r.Temperature = "n/a"
	case 2:
		r.Temperature = nil
	default:
		r.Unit = "X"
	}
	return encode(r)
}

func encode(r reading) []byte {
	value, err := json.Marshal(r)
	if err != nil {
		panic(err) // a reading has only strings and finite numbers
	}
	return value
}
