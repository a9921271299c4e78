package stack

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"smelt"
)

// ports are the ports of a stack, never 0.
type ports struct {
	kafka, s3, console, postgres int
}

// choosePorts finds a free port for each that is 0 and makes sure that the
// others are free, before anything is started. It holds all of them until the
// last is chosen, so that no two are the same.
func choosePorts(cfg Config) (ports, error) {
	var p ports
	wanted := []struct {
		port    int
		use     string
		setting string
		kind    error
		chosen  *int
	}{
		{cfg.KafkaPort, "the Kafka broker", "SMELT_KAFKA_PORT", smelt.ErrSource, &p.kafka},
		{cfg.S3Port, "the S3 server", "SMELT_S3_PORT", smelt.ErrStore, &p.s3},
		{cfg.ConsolePort, "the S3 console", "SMELT_CONSOLE_PORT", smelt.ErrStore, &p.console},
		{cfg.PostgresPort, "PostgreSQL", "SMELT_POSTGRES_PORT", smelt.ErrDatabase, &p.postgres},
	}
	for _, w := range wanted {
		l, err := net.Listen("tcp", address(w.port))
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("port %d, for %s, is taken: stop the program that listens there, or set %s to another port", w.port, w.use, w.setting)
		} else if err != nil {
			err = fmt.Errorf("port %d, for %s: %w", w.port, w.use, err)
		}
		if err != nil {
			return ports{}, smelt.Mark(w.kind, err)
		}
		defer l.Close()
		*w.chosen = l.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}
