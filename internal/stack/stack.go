// Package stack is the development stack: a broker for Kafka's protocol, an S3 server and a private PostgreSQL, all on 127.0.0.1
// with their state in one folder. Acknowledged data survives a kill of the process, not a loss of power.
//
// No package from ingest to gold knows this one. They get the endpoints and credentials of [Stack.Settings], or of a real
// cluster.
//
// The S3 server changes the working directory of its process, can run only once in a process, and prints to os.Stdout. So the
// stack is a process of its own, `smelt stack`, which reserves its standard output first.
package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"smelt"
)

// loopback is the only address that the stack listens on.
const loopback = "127.0.0.1"

// probeInterval is how often a service that is starting is asked whether it is
// ready: short beside the time that any of them takes.
const probeInterval = 20 * time.Millisecond

// Config says where a stack keeps its state and on which ports it listens. Port 0 means any free port.
type Config struct {
	Home         string // the state folder; made when it is missing
	KafkaPort    int
	S3Port       int
	ConsolePort  int // the S3 server's web console
	PostgresPort int
	Log          *slog.Logger // nil: nothing is logged
}

// Stack is a running broker, S3 server and database.
type Stack struct {
	lock     *os.File
	secrets  secrets
	ports    ports
	kafka    *broker
	s3       *gateway
	postgres *keptPostgres
	done     chan error
	close    sync.Once
}

// Start starts the three services and returns when each of them answers a client that logs in. ctx bounds the start, not
// the life of the stack. It fails, and leaves nothing running, if another stack uses the folder (smelt.ErrLocked), if a
// port is taken or if a service does not start. The error's kind says which service: smelt.ErrSource, smelt.ErrStore or
// smelt.ErrDatabase.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	home, err := filepath.Abs(cfg.Home)
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", cfg.Home, err)
	}
	s := &Stack{done: make(chan error, 1)}
	if s.lock, err = lockHome(home); err != nil {
		return nil, err
	}
	if err := s.start(ctx, home, cfg, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context, home string, cfg Config, log *slog.Logger) (err error) {
	if s.ports, err = choosePorts(cfg); err != nil {
		return err
	}
	if s.secrets, err = loadSecrets(home); err != nil {
		return err
	}
	began := time.Now()
	s.kafka, err = startKafka(ctx, filepath.Join(home, "kafka"), s.ports.kafka, s.secrets.KafkaCluster, log)
	if err != nil {
		return smelt.Mark(smelt.ErrSource, fmt.Errorf("start the Kafka broker: %w", err))
	}
	log.Info("kafka is up", "address", address(s.ports.kafka), "took", time.Since(began).Round(time.Millisecond).String())

	began = time.Now()
	if s.s3, err = startS3(ctx, home, s.ports, s.secrets.S3Secret); err != nil {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("start the S3 server: %w", err))
	}
	log.Info("s3 is up", "address", address(s.ports.s3), "console", s.Console(), "took", time.Since(began).Round(time.Millisecond).String())

	began = time.Now()
	s.postgres, err = keepPostgres(ctx, func(ctx context.Context) (*postgres, error) {
		return startPostgres(ctx, filepath.Join(home, "postgres"), s.ports.postgres, s.secrets.PostgresPassword, log)
	}, log)
	if err != nil {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("start PostgreSQL: %w", err))
	}
	log.Info("postgres is up", "address", address(s.ports.postgres), "took", time.Since(began).Round(time.Millisecond).String())
	go s.watch()
	return nil
}

// watch reports the first service that ends, also by Close.
func (s *Stack) watch() {
	select {
	case <-s.s3.ended:
		s.done <- smelt.Mark(smelt.ErrStore, fmt.Errorf("the S3 server ended: %w", s.s3.err))
	case <-s.postgres.ended:
		s.done <- smelt.Mark(smelt.ErrDatabase, fmt.Errorf("PostgreSQL ended: %w", s.postgres.err))
	}
}

// Done receives one error when a service ends, whether on its own or by Close. A
// database that ends on its own is started again first, a few times.
func (s *Stack) Done() <-chan error { return s.done }

// Settings are the settings, by the names of their environment variables, with
// which smelt and its tools reach the stack. They hold passwords.
func (s *Stack) Settings() map[string]string {
	return map[string]string{
		"SMELT_KAFKA_BROKERS": address(s.ports.kafka),
		"SMELT_KAFKA_TRIM":    "true",
		"SMELT_S3_ENDPOINT":   "http://" + address(s.ports.s3),
		"SMELT_S3_BUCKET":     Bucket,
		"SMELT_S3_REGION":     region,
		"SMELT_S3_ACCESS_KEY": accessKey,
		"SMELT_S3_SECRET_KEY": s.secrets.S3Secret,
		"SMELT_POSTGRES_DSN":  dsn(s.ports.postgres, s.secrets.PostgresPassword),
	}
}

// Console is the address of the S3 server's web console; the access key and
// the secret key of Settings log in there.
func (s *Stack) Console() string { return "http://" + address(s.ports.console) }

// Close stops the services, the last started first, and frees the folder. Only
// the first call does so. It takes a few seconds at most.
func (s *Stack) Close() error {
	var errs []error
	s.close.Do(func() {
		if s.postgres != nil {
			errs = append(errs, s.postgres.stop())
		}
		if s.s3 != nil {
			s.s3.stop()
		}
		if s.kafka != nil {
			s.kafka.stop()
		}
		errs = append(errs, s.lock.Close())
	})
	return errors.Join(errs...)
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
