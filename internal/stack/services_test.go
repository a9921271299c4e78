package stack_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt/internal/stack"
)

const (
	topic   = "readings"
	group   = "readers"
	timeout = 30 * time.Second
)

// fill writes something that bears the name to each service, by the ways that
// the line will use.
func fill(t *testing.T, settings map[string]string, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	fillKafka(ctx, t, settings, name)
	fillS3(ctx, t, settings, name)
	fillPostgres(ctx, t, settings, name)
}

// check reads back what fill wrote for each of the names, and nothing else.
func check(t *testing.T, settings map[string]string, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	checkKafka(ctx, t, settings, names)
	checkS3(ctx, t, settings, names)
	checkPostgres(ctx, t, settings, names)
}

func kafka(t *testing.T, settings map[string]string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(settings["SMELT_KAFKA_BROKERS"]))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fillKafka writes two records, one of them in a transaction, and leaves the
// group's position after the first.
func fillKafka(ctx context.Context, t *testing.T, settings map[string]string, name string) {
	t.Helper()
	admin := kadm.NewClient(kafka(t, settings))
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: topic, Value: []byte(name)}
	if err := kafka(t, settings).ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	tx := kafka(t, settings, kgo.TransactionalID(name))
	for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := tx.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(name + " in a transaction")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := tx.EndTransaction(ctx, commit); err != nil {
			t.Fatal(err)
		}
	}
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, record.Offset+1, -1)
	if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
		t.Fatal(err)
	}
}

func checkKafka(ctx context.Context, t *testing.T, settings map[string]string, names []string) {
	t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, name, name+" in a transaction")
	}
	reader := kafka(t, settings, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	last := map[string]int64{}
	for len(got) < len(want) {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got = append(got, string(r.Value))
			last[string(r.Value)] = r.Offset
		})
	}
	if g, w := strings.Join(got, ", "), strings.Join(want, ", "); g != w {
		t.Errorf("the topic has %s; want %s", g, w)
	}
	offsets, err := kadm.NewClient(kafka(t, settings)).FetchOffsets(ctx, group)
	if err != nil {
		t.Fatal(err)
	}
	position, _ := offsets.Lookup(topic, 0)
	if want := last[names[len(names)-1]] + 1; position.At != want {
		t.Errorf("the group is at %d, want %d", position.At, want)
	}
}

func s3(t *testing.T, settings map[string]string) *minio.Client {
	t.Helper()
	c, err := minio.New(strings.TrimPrefix(settings["SMELT_S3_ENDPOINT"], "http://"), &minio.Options{
		Creds:  credentials.NewStaticV4(settings["SMELT_S3_ACCESS_KEY"], settings["SMELT_S3_SECRET_KEY"], ""),
		Region: settings["SMELT_S3_REGION"],
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fillS3 has several writers race for one key: one of them wins.
func fillS3(ctx context.Context, t *testing.T, settings map[string]string, name string) {
	t.Helper()
	const racers = 16
	client := s3(t, settings)
	var wins, losses atomic.Int32
	var wg sync.WaitGroup
	for range racers {
		wg.Go(func() {
			opts := minio.PutObjectOptions{
				DisableContentSha256: true,
				DisableMultipart:     true,
				UserMetadata:         map[string]string{"writer": name},
			}
			opts.SetMatchETagExcept("*")
			body := []byte("object " + name)
			_, err := client.PutObject(ctx, stack.Bucket, "a/"+name, bytes.NewReader(body), int64(len(body)), opts)
			switch {
			case err == nil:
				wins.Add(1)
			case minio.ToErrorResponse(err).Code == minio.PreconditionFailed:
				losses.Add(1)
			default:
				t.Errorf("put: %v", err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 || losses.Load() != racers-1 {
		t.Errorf("%d writers won and %d lost, want 1 and %d", wins.Load(), losses.Load(), racers-1)
	}
}

func checkS3(ctx context.Context, t *testing.T, settings map[string]string, names []string) {
	t.Helper()
	client := s3(t, settings)
	for _, name := range names {
		object, err := client.GetObject(ctx, stack.Bucket, "a/"+name, minio.GetObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		got, err := io.ReadAll(object)
		if err != nil {
			t.Fatal(err)
		}
		info, err := object.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != "object "+name || info.UserMetadata["Writer"] != name {
			t.Errorf("object a/%s is %q with metadata %v", name, got, info.UserMetadata)
		}
	}
	for _, url := range []string{settings["SMELT_S3_ENDPOINT"] + "/healthz", settings["console"]} {
		reply, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			t.Errorf("%s says %s", url, reply.Status)
		}
	}
}

type execer struct{ *pgx.Conn }

func (e execer) Exec(ctx context.Context, sql string, args ...any) error {
	_, err := e.Conn.Exec(ctx, sql, args...)
	return err
}

func connect(ctx context.Context, t *testing.T, settings map[string]string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(ctx, settings["SMELT_POSTGRES_DSN"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// fillPostgres seeds, corrects and seeds again: the correction has to stay.
func fillPostgres(ctx context.Context, t *testing.T, settings map[string]string, name string) {
	t.Helper()
	db := execer{connect(ctx, t, settings)}
	if err := stack.Seed(ctx, db); err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(ctx, "UPDATE public.locations SET city = $1 WHERE sensor_id = 'hel-001'", name); err != nil {
		t.Fatal(err)
	}
	if err := stack.Seed(ctx, db); err != nil {
		t.Fatal(err)
	}
}

func checkPostgres(ctx context.Context, t *testing.T, settings map[string]string, names []string) {
	t.Helper()
	rows, err := connect(ctx, t, settings).Query(ctx, "SELECT city FROM public.locations ORDER BY sensor_id")
	if err != nil {
		t.Fatal(err)
	}
	cities, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := names[len(names)-1] + ", New York, Tokyo"
	if got := strings.Join(cities, ", "); got != want {
		t.Errorf("the cities are %s, want %s", got, want)
	}
}
