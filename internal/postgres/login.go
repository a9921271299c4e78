package postgres

import (
	"context"
	"crypto/tls"
	"sync"

	"github.com/jackc/pgx/v5"
)

// login gives each new connection the current user and password. If the DSN cannot be read, it keeps the former ones
// and logs that.
func (c Config) login(start *pgx.ConnConfig) func(context.Context, *pgx.ConnConfig) error {
	var mu sync.Mutex
	user, password := start.User, start.Password
	return func(ctx context.Context, conn *pgx.ConnConfig) error {
		mu.Lock()
		defer mu.Unlock()
		now, err := c.reread()
		if err != nil {
			c.Log.WarnContext(ctx, "the PostgreSQL connection string cannot be read again", "error", err)
		} else if now.Password != password || now.User != user {
			c.Log.InfoContext(ctx, "the PostgreSQL password has changed: going on with the new one", "user", now.User)
			user, password = now.User, now.Password
		}
		conn.User, conn.Password = user, password
		return nil
	}
}

// reread reads the current DSN.
func (c Config) reread() (*pgx.ConnConfig, error) {
	dsn, err := c.Reread()
	if err != nil {
		return nil, err
	}
	now, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	return now, nil
}

// secure sets what a DSN leaves open of TLS: whom to trust, and the oldest version.
func (c Config) secure(conn *pgx.ConnConfig) {
	configs := []*tls.Config{conn.TLSConfig}
	for _, f := range conn.Fallbacks {
		configs = append(configs, f.TLSConfig)
	}
	for _, t := range configs {
		if t == nil || c.TLS == nil {
			continue
		}
		t.MinVersion = c.TLS.MinVersion
		if t.RootCAs == nil {
			t.RootCAs = c.TLS.RootCAs
		}
	}
}
