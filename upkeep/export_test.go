package upkeep

import (
	"context"

	"smelt/internal/table"
)

// The tasks, one by one, and what they are made of.
var (
	Compaction  = compaction
	Orphans     = orphans
	Manifests   = manifests
	CheckFields = checkFields
)

// Rejects are the files by which retention of bronze knows what quarantine may need.
func Rejects(ctx context.Context, cfg Config) ([]table.File, error) {
	return bronzeRetention{Config: cfg}.rejects(ctx)
}
