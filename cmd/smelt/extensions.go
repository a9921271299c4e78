package main

import (
	"context"
	"path/filepath"
)

// extensionsCmd fetches what the query shell needs, ahead of its first use.
type extensionsCmd struct{}

// Run installs DuckDB's extensions in the state folder.
func (extensionsCmd) Run(ctx context.Context, s *settings, io *streams) error {
	db, err := s.openDuck("extensions")
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Extensions(ctx, s.extensions(), newLog(io.Err))
}

// extensions is the folder of DuckDB's extensions.
func (s *settings) extensions() string { return filepath.Join(s.Home, "extensions") }
