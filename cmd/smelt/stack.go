package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"smelt/internal/postgres"
	"smelt/internal/stack"
)

// stackCmd runs the embedded services until it is stopped.
type stackCmd struct{}

// Run starts the services, seeds the demo's reference table and writes the
// settings with which the other commands find them.
func (stackCmd) Run(ctx context.Context, s *settings, io *streams) error {
	home, err := filepath.Abs(s.Home) // the S3 server changes the working folder
	if err != nil {
		return err
	}
	s.Home = home
	// The S3 server's library prints to the standard output, which is ours.
	os.Stdout = os.Stderr
	running, err := daemonize(home, "stack")
	if err != nil {
		return err
	}
	defer running.release()
	log := newLog(keepLog(s.logPath("stack"), io.Err))
	services, err := stack.Start(ctx, stack.Config{
		Home: home, KafkaPort: s.StackKafkaPort, S3Port: s.StackS3Port,
		ConsolePort: s.StackConsolePort, PostgresPort: s.StackPostgresPort, Log: log,
	})
	if err != nil {
		return err
	}
	defer services.Close()
	values := services.Settings()
	if err := seed(ctx, values["SMELT_POSTGRES_DSN"]); err != nil {
		return err
	}
	if err := writeEnv(filepath.Join(home, stackFile), values); err != nil {
		return err
	}
	if err := running.ready(""); err != nil {
		return err
	}
	fmt.Fprintf(io.Out, "Kafka %s · S3 %s · console %s\n", values["SMELT_KAFKA_BROKERS"], values["SMELT_S3_ENDPOINT"], services.Console())
	select {
	case <-ctx.Done():
		return nil
	case err := <-services.Done():
		return err
	}
}

// seed makes the demo's reference table, when it is not there.
func seed(ctx context.Context, dsn string) error {
	db, err := postgres.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return stack.Seed(ctx, db)
}
