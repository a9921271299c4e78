package wiretest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
	"smelt/ingest"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/postgres"
	"smelt/internal/stack/stacktest"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/internal/telemetry"
	"smelt/internal/wiretest"
	"smelt/pipeline"
)

const partitions = 2

func TestMain(m *testing.M) { stacktest.Main(m) }

// world is a line that reaches each of its services over a wire of its own, and
// what looks at its lake without any.
type world struct {
	pipeline *smelt.Pipeline
	kafka    *wiretest.Proxy
	s3       *wiretest.Proxy // before the gateway
	gateway  *wiretest.Gateway
	postgres *wiretest.Proxy

	producer *kgo.Client
	sent     int
	lake     *table.Lake
	objects  *store.S3
	verifier inspect.Verifier
	ready    string // the URL of the line's readiness
	log      *logBuffer
}

// newWorld runs a line. Its pipeline is called name, which no other test's is.
func newWorld(t *testing.T, name string) *world {
	t.Helper()
	w := &world{pipeline: newPipeline(t, name), log: new(logBuffer)}
	w.serveKafka(t)
	services := stacktest.Settings(t)
	s3, dsn := parse(t, services["SMELT_S3_ENDPOINT"]), parse(t, services["SMELT_POSTGRES_DSN"])
	w.gateway = wiretest.NewGateway(t, s3.Host)
	w.s3 = wiretest.NewProxy(t, w.gateway.Address())
	w.postgres = wiretest.NewProxy(t, dsn.Host)

	db := openDuck(t)
	direct, _ := openArea(t, s3.String(), dsn.String())
	w.lake, w.objects = direct.Lake, direct.Store.(*store.S3)
	w.verifier = inspect.Verifier{Area: direct, Duck: db, RecordMax: 8 << 20}
	w.reference(t, dsn.String())

	s3.Host, dsn.Host = w.s3.Address(), w.postgres.Address()
	area, database := openArea(t, s3.String(), dsn.String())
	log := slog.New(slog.NewTextHandler(w.log, nil))
	database.Log = log
	l, err := line.Open(t.Context(), w.pipeline, line.Parts{
		Area: area, Duck: db, References: database, Locker: database, Log: log,
		Flush: 200 * time.Millisecond, ListEvery: 10 * time.Second,
		Source: func(ctx context.Context, p *smelt.Pipeline, resume smelt.Resume) (smelt.Source, error) {
			return ingest.OpenKafka(ctx, ingest.KafkaConfig{
				Cluster: ingest.Cluster{Brokers: []string{w.kafka.Address()}},
				Topic:   p.Topic, Group: "smelt-" + p.Name, Resume: resume, Log: log,
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(database.Prepare(t.Context(), w.pipeline.References), l.Prepare(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.run(t, l, log)
	return w
}

// run steps the line until the test ends.
func (w *world) run(t *testing.T, l *line.Line, log *slog.Logger) {
	t.Helper()
	metrics := telemetry.New()
	server, err := telemetry.Serve(telemetry.Config{Address: "127.0.0.1:0", Metrics: metrics, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	w.ready = "http://" + server.Address() + "/readyz?verbose"
	stages := smelt.Line{
		Ingest: []smelt.Stage{l.Bronze}, Refine: []smelt.Stage{l.Silver}, Log: log, Begin: metrics.Begin, Observe: metrics.Observe,
	}
	for _, g := range l.Gold {
		stages.Refresh = append(stages.Refresh, g)
	}
	for _, s := range slices.Concat(stages.Ingest, stages.Refine, stages.Refresh) {
		metrics.Expect(s.Name())
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- smelt.Run(ctx, stages) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, l.Close(), server.Close()); err != nil {
			t.Errorf("the line ended with: %v", err)
		}
		if t.Failed() || *partition > 0 {
			t.Logf("the line's log:\n%s", w.log)
		}
	})
}

const declaration = `source: {kafka: NAME}
events:
  time: seen
  columns:
    sensor: varchar not null
    value:  double not null
    seen:   timestamptz not null
references:
  places: {table: public.NAME_places, key: sensor, on: sensor}
silver:
  partition: day(seen)
gold:
  hourly_NAME: {window: 1h, column: hour}
`

const silverSQL = `SELECT sensor, seen, value, places.city AS city, _partition_id, _partition_offset
FROM bronze.NAME LEFT JOIN reference.places USING (sensor)`

const hourlySQL = `SELECT date_trunc('hour', seen) AS hour, city, count(*) AS readings, sum(value::BIGINT) AS total
FROM silver.NAME GROUP BY ALL`

func newPipeline(t *testing.T, name string) *smelt.Pipeline {
	t.Helper()
	file := func(text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "NAME", name))}
	}
	p, err := pipeline.Read(fstest.MapFS{
		name + "/pipeline.yml":            file(declaration),
		name + "/silver.sql":              file(silverSQL),
		name + "/hourly_" + name + ".sql": file(hourlySQL),
	}, name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serveKafka starts a broker that tells its clients the wire's address for its own.
func (w *world) serveKafka(t *testing.T) {
	t.Helper()
	var address string
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, w.pipeline.Topic),
		kfake.ListenFn(func(network, at string) (net.Listener, error) {
			l, err := net.Listen(network, at)
			if err != nil {
				return nil, err
			}
			address = l.Addr().String()
			w.kafka = wiretest.NewProxy(t, address)
			return w.kafka.Advertised(l), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	w.producer, err = kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(w.pipeline.Topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address) // past the wire
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.producer.Close)
}

// send sends n events, one of them in trouble.
func (w *world) send(t *testing.T, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		value := fmt.Sprintf(`{"sensor":"s%d","value":%d,"seen":"%s"}`, w.sent%3, w.sent, time.Now().UTC().Format(time.RFC3339Nano))
		if i == 0 {
			value = "no event"
		}
		records[i] = &kgo.Record{Value: []byte(value)}
		w.sent++
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// reference makes the pipeline's reference table.
func (w *world) reference(t *testing.T, dsn string) {
	t.Helper()
	db := openDatabase(t, dsn)
	places := w.pipeline.References[0].Table
	err := db.Exec(t.Context(), fmt.Sprintf("CREATE TABLE %[1]s (sensor text PRIMARY KEY, city text); INSERT INTO %[1]s VALUES ('s0', 'Espoo'), ('s1', 'Turku')", places))
	if err != nil {
		t.Fatal(err)
	}
}

func openDatabase(t *testing.T, dsn string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func openArea(t *testing.T, endpoint, dsn string) (staging.Area, *postgres.DB) {
	t.Helper()
	services := stacktest.Settings(t)
	objects, err := store.OpenS3(t.Context(), store.S3Config{
		Endpoint: endpoint, Bucket: services["SMELT_S3_BUCKET"],
		AccessKey: services["SMELT_S3_ACCESS_KEY"], SecretKey: services["SMELT_S3_SECRET_KEY"],
	})
	if err != nil {
		t.Fatal(err)
	}
	db := openDatabase(t, dsn)
	catalog, err := db.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cache, err := store.NewCache(objects, t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return staging.Area{Store: objects, Lake: table.Open(objects, catalog, "s3://"+services["SMELT_S3_BUCKET"]), Cache: cache}, db
}

func openDuck(t *testing.T) *duck.DB {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: filepath.Join(t.TempDir(), "duck"), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func parse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// readiness is what the line says of itself.
func (w *world) readiness(t *testing.T) (ready bool, said string) {
	t.Helper()
	reply, err := http.Get(w.ready)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode == http.StatusOK, string(body)
}

// receipt counts what has arrived, without the wires.
func (w *world) receipt(t *testing.T) (whole bool, r inspect.Receipt) {
	t.Helper()
	r, err := inspect.Count(t.Context(), w.objects, w.lake, w.pipeline, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r.OK && r.OnTheirWay == 0 && r.Bronze == int64(w.sent) && r.Gold[0].SilverRows == r.Silver, r
}

// eventually waits for something to be so, and returns how long that took.
func eventually(t *testing.T, within time.Duration, what string, so func() (bool, string)) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, seen := so()
		took := time.Since(began)
		if ok {
			return took
		}
		if took > within {
			t.Fatalf("%s: not so after %s: %s", what, took.Round(time.Second), seen)
		}
		<-tick.C
	}
}

// through waits until all that was sent is in gold.
func (w *world) through(t *testing.T, what string) time.Duration {
	t.Helper()
	return eventually(t, 2*time.Minute, what, func() (bool, string) {
		whole, r := w.receipt(t)
		_, said := w.readiness(t)
		return whole, fmt.Sprintf("%d sent, %s\n%s", w.sent, r, said)
	})
}

// logBuffer is a log for a test that failed.
type logBuffer struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}
