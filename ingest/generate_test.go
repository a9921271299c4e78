package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"smelt"
	"smelt/ingest"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 123e6, time.UTC)

type event struct {
	Sensor      string    `json:"sensor_id"`
	Temperature *float64  `json:"temperature"`
	Unit        string    `json:"unit"`
	Time        time.Time `json:"event_time"`
}

func TestReadingsArePlausible(t *testing.T) {
	t.Parallel()
	celsius := map[string]func(float64) float64{
		"C": func(v float64) float64 { return v },
		"F": func(v float64) float64 { return (v - 32) * 5 / 9 },
		"K": func(v float64) float64 { return v - 273.15 },
	}
	units := map[string]string{"hel-001": "C", "nyc-001": "F", "tyo-001": "K"}
	readings := ingest.NewReadings(1, 0)
	last := make(map[string]float64)
	for i := range 3 * 24 * 60 / 5 {
		now := noon.Add(time.Duration(i/3*5) * time.Minute)
		id, value := readings.Next(now)
		var e event
		if err := json.Unmarshal(value, &e); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if e.Sensor != id || e.Unit != units[id] || !e.Time.Equal(now) || e.Temperature == nil {
			t.Fatalf("got %s for sensor %s at %v", value, id, now)
		}
		if v := *e.Temperature * 100; math.Abs(v-math.Round(v)) > 1e-6 {
			t.Errorf("%s has more than two decimals", value)
		}
		got := celsius[e.Unit](*e.Temperature)
		if got < -30 || got > 45 {
			t.Errorf("%s is %v °C", value, got)
		}
		if before, ok := last[id]; ok && math.Abs(got-before) > 2 {
			t.Errorf("%s leaps from %v to %v °C in five minutes", id, before, got)
		}
		last[id] = got
	}
	if len(last) != 3 {
		t.Errorf("got %d sensors, want 3", len(last))
	}
}

func TestReadingsForm(t *testing.T) {
	t.Parallel()
	id, value := ingest.NewReadings(1, 0).Next(noon)
	const want = `{"sensor_id":"hel-001","temperature":1.23,"unit":"C","event_time":"2026-11-29T12:00:00.123Z"}`
	var got, expected map[string]any
	if json.Unmarshal(value, &got) != nil || json.Unmarshal([]byte(want), &expected) != nil {
		t.Fatalf("%s is no JSON", value)
	}
	expected["temperature"] = got["temperature"]
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(expected)
	if id != "hel-001" || string(g) != string(w) {
		t.Errorf("got %s, want the form of %s", value, want)
	}
}

func TestReadingsMess(t *testing.T) {
	t.Parallel()
	const n = 4_000
	for _, mess := range []float64{0, ingest.DefaultMess, 1} {
		readings, again := ingest.NewReadings(7, mess), ingest.NewReadings(7, mess)
		late, bad := 0, 0
		for range n {
			_, value := readings.Next(noon)
			if _, same := again.Next(noon); string(same) != string(value) {
				t.Fatalf("the same seed gives %s, then %s", value, same)
			}
			var e event
			switch err := json.Unmarshal(value, &e); {
			case err != nil || e.Temperature == nil || e.Unit == "X":
				bad++
			case e.Time.Before(noon):
				late++
				if by := noon.Sub(e.Time); by < 2*time.Minute || by > 30*time.Minute {
					t.Errorf("%s is late by %v", value, by)
				}
			}
		}
		for _, got := range []int{late, bad} {
			if want := mess / 2 * n; math.Abs(float64(got)-want) > 0.5*want {
				t.Errorf("mess %v: got %d late and %d bad, want about %v of each", mess, late, bad, want)
			}
		}
	}
}

// drain reads n records of the topic.
func drain(t testing.TB, b broker, n int) []smelt.Record {
	t.Helper()
	source := b.open(t, at(-1))
	defer source.Close()
	var all []smelt.Record
	for len(all) < n {
		records, err := source.Poll(deadline(t), 64<<20)
		if err != nil || len(records) == 0 {
			t.Fatalf("poll: got %d of %d records, and error %v", len(all), n, err)
		}
		for _, r := range records {
			r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
			all = append(all, r)
		}
	}
	return all
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1)
	if err := b.DeleteTopic(topicName); err != nil {
		t.Fatal(err)
	}
	cfg := ingest.GenerateConfig{
		Cluster: b.cluster, Topic: topicName, Partitions: 2, Rate: 10_000, Count: 50, History: time.Hour,
	}
	start := time.Now()
	if err := ingest.Generate(deadline(t), cfg); err != nil {
		t.Fatalf("generate: %v", err)
	}
	if got := b.TopicInfo(topicName); len(b.PartitionInfos(topicName)) != 2 {
		t.Errorf("got topic %+v, want 2 partitions", got)
	}
	const history = 3 * 60
	records := drain(t, b, history+50)
	var old int
	for _, r := range records {
		var e event
		if err := json.Unmarshal(r.Value, &e); err != nil {
			t.Fatalf("%s: %v", r.Value, err)
		}
		if string(r.Key) != e.Sensor || r.Timestamp != e.Time.UnixMilli() {
			t.Errorf("got key %s and timestamp %d for %s", r.Key, r.Timestamp, r.Value)
		}
		if e.Time.Before(start.Truncate(time.Millisecond)) {
			old++
		}
	}
	if len(records) != history+50 || old != history {
		t.Errorf("got %d records, %d of them history; want %d and %d", len(records), old, history+50, history)
	}

	// The topic is there now: no history any more.
	if err := ingest.Generate(deadline(t), cfg); err != nil {
		t.Fatalf("generate again: %v", err)
	}
	if got := len(drain(t, b, history+100)); got != history+100 {
		t.Errorf("got %d records after the second run, want %d", got, history+100)
	}
}

func TestGenerateEnds(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1)
	ctx, cancel := context.WithCancel(deadline(t))
	done := make(chan error, 1)
	go func() {
		done <- ingest.Generate(ctx, ingest.GenerateConfig{Cluster: b.cluster, Topic: topicName, Rate: 1000})
	}()
	drain(t, b, 1)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("generate: got error %v at the end of its context, want none", err)
	}

	down := ingest.Cluster{Brokers: []string{unusedAddress(t)}}
	err := ingest.Generate(deadline(t), ingest.GenerateConfig{Cluster: down, Topic: topicName, Rate: 1})
	if !errors.Is(err, smelt.ErrSource) {
		t.Errorf("generate: got error %v, want %v", err, smelt.ErrSource)
	}
}

// A broker whose disk is full refuses readings without a word of why: the generator says
// so once, and goes on when there is room.
func TestGenerateGoesOn(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	const refusals = 2
	var produced atomic.Int64
	b.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if produced.Add(1) > refusals {
			return nil, nil, false
		}
		b.KeepControl()
		request := r.(*kmsg.ProduceRequest)
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range request.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.UnknownServerError.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			response.Topics = append(response.Topics, topic)
		}
		return response, nil, true
	})
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- ingest.Generate(ctx, ingest.GenerateConfig{Cluster: b.cluster, Topic: topicName, Rate: 3, Log: slog.New(slog.NewTextHandler(&log, nil))})
	}()
	drain(t, b, 3)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"takes no readings", "takes readings again"} {
		if got := strings.Count(log.String(), want); got != 1 {
			t.Errorf("the log says %q %d times, want once:\n%s", want, got, log.String())
		}
	}
}
