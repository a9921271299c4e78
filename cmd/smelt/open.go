package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/ingest"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/postgres"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/silver"
)

// pipelines reads the pipelines: those that ship, or a folder of the user's.
func (s *settings) pipelines() ([]*smelt.Pipeline, error) {
	var fsys fs.FS = smelt.Shipped()
	if s.Pipelines != "" {
		if _, err := os.Stat(s.Pipelines); err != nil {
			return nil, usageError{fmt.Errorf("--pipelines: %w", err)}
		}
		fsys = os.DirFS(s.Pipelines)
	}
	return pipeline.ReadAll(fsys)
}

// cluster says how to reach Kafka.
func (s *settings) cluster() (ingest.Cluster, error) {
	if len(s.KafkaBrokers) == 0 {
		return ingest.Cluster{}, smelt.Mark(smelt.ErrSource, errors.New("no Kafka brokers are set: run ./scripts/start.sh for the embedded stack, or set SMELT_KAFKA_BROKERS"))
	}
	c := ingest.Cluster{
		Brokers: s.KafkaBrokers,
		SASL:    ingest.SASL{Mechanism: s.KafkaSASLMechanism, User: s.KafkaSASLUsername, Password: s.KafkaSASLPassword},
	}
	var err error
	c.TLS, err = s.kafkaTLS()
	return c, err
}

// lake is the opened store, database and tables.
type lake struct {
	Store    *store.S3
	Database *postgres.DB
	Tables   *table.Lake
}

// openStore makes the store's client; it connects when it is first used.
func (s *settings) openStore(ctx context.Context) (*store.S3, error) {
	if s.S3Endpoint == "" && s.S3AccessKey == "" {
		return nil, smelt.Mark(smelt.ErrStore, errors.New("no S3 is set: run ./scripts/start.sh for the embedded stack, or set SMELT_S3_ENDPOINT, SMELT_S3_ACCESS_KEY and SMELT_S3_SECRET_KEY"))
	}
	trusted, err := s.trusted()
	if err != nil {
		return nil, err
	}
	keys, err := s.s3Keys()
	if err != nil {
		return nil, err
	}
	return store.OpenS3(ctx, store.S3Config{
		Endpoint: s.S3Endpoint, Region: s.S3Region, Bucket: s.S3Bucket, TLS: trusted, Log: s.log,
		AccessKey: keys.Access, SecretKey: keys.Secret, SessionToken: keys.Session, Reread: s.s3Keys,
	})
}

// openLake connects to the store and the database.
func (s *settings) openLake(ctx context.Context) (*lake, error) { return s.open(ctx, false) }

// openReader connects as openLake does, for those who change nothing: the right to
// read is enough.
func (s *settings) openReader(ctx context.Context) (*lake, error) { return s.open(ctx, true) }

func (s *settings) open(ctx context.Context, reader bool) (*lake, error) {
	objects, err := s.openStore(ctx)
	if err != nil {
		return nil, err
	}
	db, err := s.openDatabase(ctx, reader)
	if err != nil {
		return nil, err
	}
	catalog := db.ReadCatalog()
	if !reader {
		if catalog, err = db.Catalog(ctx); err != nil {
			db.Close()
			return nil, err
		}
	}
	tables := table.Open(objects, catalog, "s3://"+s.S3Bucket)
	tables.Log = s.log
	return &lake{Store: objects, Database: db, Tables: tables}, nil
}

// openDatabase connects to PostgreSQL.
func (s *settings) openDatabase(ctx context.Context, reader bool) (*postgres.DB, error) {
	if s.PostgresDSN == "" && fallbackDatabase() == "" {
		return nil, smelt.Mark(smelt.ErrDatabase, errors.New("no PostgreSQL is set: run ./scripts/start.sh for the embedded stack, or set SMELT_POSTGRES_DSN"))
	}
	trusted, err := s.trusted()
	if err != nil {
		return nil, err
	}
	return postgres.Config{
		DSN: s.PostgresDSN, Reader: reader, TLS: trusted, Log: s.log,
		Reread: func() (string, error) {
			found, err := s.again("PostgresDSN")
			return found.Value, err
		},
	}.Open(ctx)
}

// fallbackDatabase names the variable of PostgreSQL's own tools that says where a
// database is; it is empty when none does.
func fallbackDatabase() string {
	for _, name := range []string{"PGSERVICE", "PGHOST"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// Close closes the connections.
func (l *lake) Close() { l.Database.Close() }

// openDuck starts DuckDB, with its temporary files in the state folder.
func (s *settings) openDuck(name string) (*duck.DB, error) {
	return duck.Open(duck.Config{MemoryBytes: int64(s.Memory), TempDir: s.tempDir(name)})
}

// openLineDuck starts the DuckDB of running lines. Each session uses one thread. Several threads cost a third more CPU, mostly in
// waiting for each other, and the stages run in parallel anyway.
func (s *settings) openLineDuck(name string) (*duck.DB, error) {
	return duck.Open(duck.Config{MemoryBytes: int64(s.Memory), TempDir: s.tempDir(name), Threads: 1})
}

// tempDir is a command's folder for files on their way.
func (s *settings) tempDir(name string) string { return filepath.Join(s.Home, "tmp", name) }

// cacheDir is a command's folder for local copies of data files.
func (s *settings) cacheDir(name string) string { return filepath.Join(s.Home, "cache", name) }

// scratch names the temporary folders of this process, for a command that may run several times at once. It removes those of
// killed processes. done removes its own.
func (s *settings) scratch(command string) (name string, done func() error) {
	for _, parent := range []string{s.tempDir(""), s.cacheDir("")} {
		left, _ := filepath.Glob(filepath.Join(parent, command+"-*")) // its only error is a bad pattern
		for _, dir := range left {
			pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), command+"-"))
			if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				_ = os.RemoveAll(dir) // the next one tries again
			}
		}
	}
	name = fmt.Sprintf("%s-%d", command, os.Getpid())
	return name, func() error { return errors.Join(os.RemoveAll(s.tempDir(name)), os.RemoveAll(s.cacheDir(name))) }
}

// parts are what the lines of all pipelines share. Local copies of data files
// are in a folder of the command's own: no two processes may share one.
func (s *settings) parts(l *lake, db *duck.DB, name string, log *slog.Logger) (line.Parts, error) {
	cache, err := store.NewCache(l.Store, s.cacheDir(name), int64(s.Cache))
	if err != nil {
		return line.Parts{}, err
	}
	return line.Parts{
		Area:       staging.Area{Store: l.Store, Lake: l.Tables, Cache: cache},
		Duck:       db,
		References: l.Database,
		Locker:     l.Database,
		Log:        log,
		Flush:      time.Duration(s.Freshness) * smelt.FlushTenths / 10,
		RecordMax:  int(s.RecordMax),
		Codec:      bronze.Codec(s.Codec),
		ListEvery:  silver.DefaultListEvery,
		Source: func(ctx context.Context, p *smelt.Pipeline, resume smelt.Resume) (smelt.Source, error) {
			cluster, err := s.cluster() // what needs no source may do without
			if err != nil {
				return nil, err
			}
			return ingest.OpenKafka(ctx, ingest.KafkaConfig{
				Cluster: cluster, Topic: p.Topic, Group: group(p.Name), Resume: resume,
				Gather: time.Duration(s.Freshness) / smelt.GatherShare, Log: log,
			})
		},
	}, nil
}

// group is the consumer group in which the processes that run a pipeline share
// its partitions. Kafka's own tools show smelt's lag under this name.
func group(pipeline string) string { return "smelt-" + pipeline }
