package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// generator sends a pipeline's events, and remembers what was acknowledged.
type generator struct {
	pipeline pipeline
	client   *kgo.Client

	mu           sync.Mutex
	made         int
	acknowledged map[lineage]string // the keys
	failed       map[string]error   // by key: whether the topic has it is open
}

func newGenerator(p pipeline, client *kgo.Client) *generator {
	return &generator{pipeline: p, client: client, acknowledged: map[lineage]string{}, failed: map[string]error{}}
}

// tick is how often events are sent: those that are due together.
const tick = 50 * time.Millisecond

// run sends events at the pipeline's rate until ctx ends. When the broker is away
// they wait in the client, and time is caught up with.
func (g *generator) run(ctx context.Context, seed uint64) {
	m, began := newMaker(seed, g.pipeline.name), time.Now()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			due := int(now.Sub(began).Seconds() * float64(g.pipeline.perSecond))
			for m.n < due && ctx.Err() == nil {
				partition := int32(m.rng.IntN(int(g.pipeline.partitions)))
				g.send(ctx, g.pipeline.make(m, now), partition)
			}
		}
	}
}

// send hands an event to the client, which sends it, again until it is acknowledged.
func (g *generator) send(ctx context.Context, e event, partition int32) {
	g.mu.Lock()
	g.made++
	g.mu.Unlock()
	record := &kgo.Record{
		Topic: g.pipeline.topic, Partition: partition, Key: []byte(e.key), Value: e.value,
		Headers: []kgo.RecordHeader{{Key: kindHeader, Value: []byte(e.kind)}},
	}
	// It does not use the generator's context: events that were begun are still sent.
	g.client.Produce(context.WithoutCancel(ctx), record, func(r *kgo.Record, err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil {
			g.failed[e.key] = err
			return
		}
		g.acknowledged[lineage{r.Partition, r.Offset}] = e.key
	})
}

// counts are how many events were made, acknowledged, and given up.
func (g *generator) counts() (made, acknowledged, failed int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made, len(g.acknowledged), len(g.failed)
}
