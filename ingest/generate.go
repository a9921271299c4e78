package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
)

// These are the defaults of the demo's sensors.
const (
	DefaultRate       = 3.0           // readings a second, of all sensors together
	DefaultMess       = 0.01          // the share of them that is in trouble
	DefaultHistory    = 3 * time.Hour // long enough for several hours of gold at once
	DefaultPartitions = 3             // one a sensor
)

const (
	// historyInterval is how far apart a sensor's back-dated readings are.
	historyInterval = time.Minute

	// tick is how often a fast generator wakes up. A slow one wakes up once a
	// reading.
	tick = 10 * time.Millisecond

	// burst bounds the readings that are made up for at once, after a broker was
	// away: a second's worth.
	burst = time.Second

	// refusedPause is between two tries while the broker takes no readings.
	refusedPause = time.Second

	// flushTimeout bounds the final wait for sends in progress. It is shorter than the wait of a caller
	// that stops a generator.
	flushTimeout = time.Second
)

// GenerateConfig says what the demo's sensors send, and where to.
type GenerateConfig struct {
	Cluster    Cluster
	Topic      string
	Partitions int32         // of the topic, if it must be created
	Rate       float64       // readings a second, of all sensors together
	Mess       float64       // the share of readings that is in trouble, 0 to 1
	Seed       uint64        // the same readings for the same seed, but for the clock
	Count      int64         // readings after which to end; 0: never
	History    time.Duration // how much history a topic gets that was just created
	Log        *slog.Logger
}

// Generate sends readings until it has sent cfg.Count, or ctx ends, which is not an error. It
// creates the topic if it does not exist, and returns when the readings are acknowledged.
// Without a Count it continues while the broker rejects readings, for example because its disk
// is full. Rejected readings are lost, and the log says so.
func Generate(ctx context.Context, cfg GenerateConfig) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Rate <= 0 {
		return fmt.Errorf("a rate of %v readings a second: it must be above 0", cfg.Rate)
	}
	client, details, err := cfg.Cluster.dial(ctx, cfg.Topic, cfg.Log, kgo.DefaultProduceTopic(cfg.Topic))
	if err != nil {
		return err
	}
	defer client.Close()
	g := &generator{cfg: cfg, client: client, readings: NewReadings(cfg.Seed, cfg.Mess)}

	if errors.Is(details.Err, kerr.UnknownTopicOrPartition) {
		created, err := createTopic(ctx, cfg.Cluster, client, cfg.Topic, cfg.Partitions)
		if err != nil {
			return err
		}
		if created {
			g.history(ctx, time.Now())
		}
	}
	g.live(ctx)
	return g.finish(ctx)
}

type generator struct {
	cfg      GenerateConfig
	client   *kgo.Client
	readings *Readings
	failed   atomic.Pointer[error] // the first reading that was refused for good
	again    atomic.Bool           // one was rejected since the last pause; try others

	mu   sync.Mutex
	lost int64 // readings that were refused since one was taken
}

// history sends the readings of the time before now, back-dated.
func (g *generator) history(ctx context.Context, now time.Time) {
	step := historyInterval / time.Duration(len(sensors()))
	for at := now.Add(-g.cfg.History); at.Before(now) && g.going(ctx); at = at.Add(step) {
		g.send(ctx, at)
	}
}

// live sends readings as time passes.
func (g *generator) live(ctx context.Context) {
	interval := time.Duration(float64(time.Second) / g.cfg.Rate)
	ticker := time.NewTicker(max(interval, tick))
	defer ticker.Stop()
	next := time.Now()
	for sent := int64(0); g.going(ctx); {
		now := time.Now()
		if oldest := now.Add(-max(burst, interval)); next.Before(oldest) {
			next = oldest
		}
		for ; !next.After(now) && g.going(ctx); next = next.Add(interval) {
			g.send(ctx, now)
			if sent++; sent == g.cfg.Count {
				return
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (g *generator) going(ctx context.Context) bool {
	return ctx.Err() == nil && g.failed.Load() == nil
}

// send gives a reading to the client, which sends it in the background. It waits while the client
// holds too many, and after a rejected reading.
func (g *generator) send(ctx context.Context, at time.Time) {
	if g.again.Swap(false) {
		select {
		case <-time.After(refusedPause):
		case <-ctx.Done():
		}
	}
	id, value := g.readings.Next(at)
	record := &kgo.Record{Key: []byte(id), Value: value, Timestamp: at}
	g.client.Produce(ctx, record, func(_ *kgo.Record, err error) {
		switch {
		case err == nil:
			g.taken()
		case isDone(err):
		case g.cfg.Count == 0 && errors.Is(err, kerr.UnknownServerError):
			g.refused(err)
		default:
			g.failed.CompareAndSwap(nil, &err)
		}
	})
}

// refused notes a reading that the broker could not take, and tells of the first.
func (g *generator) refused(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost++; g.lost == 1 {
		g.cfg.Log.Warn("the broker takes no readings, perhaps since its disk is full: it is tried until it does", "topic", g.cfg.Topic, "error", err)
	}
	g.again.Store(true)
}

// taken notes a reading that the broker has taken.
func (g *generator) taken() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost > 0 {
		g.cfg.Log.Info("the broker takes readings again", "topic", g.cfg.Topic, "lost", g.lost)
		g.lost = 0
	}
}

// finish waits until all readings are acknowledged: for as long as it takes, or
// a little while when ctx has ended.
func (g *generator) finish(ctx context.Context) error {
	err := g.client.Flush(ctx)
	if ctx.Err() != nil {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		err = g.client.Flush(grace)
	}
	if failed := g.failed.Load(); failed != nil {
		err = *failed
	}
	if err != nil {
		return smelt.Mark(smelt.ErrSource, fmt.Errorf("send readings to topic %s: %w", g.cfg.Topic, err))
	}
	return nil
}
