package stack

import (
	"context"
	_ "embed"
	"fmt"

	"smelt"
)

//go:embed seed.sql
var seed string

// Execer runs a statement in the lake's database.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) error
}

// Seed creates the demo's reference table public.locations with its three sensors. An existing table is not changed, so a
// correction of it is never undone.
func Seed(ctx context.Context, db Execer) error {
	if err := db.Exec(ctx, seed); err != nil {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("seed public.locations: %w", err))
	}
	return nil
}
