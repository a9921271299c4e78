package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"smelt"
)

// Prepare installs what following the reference tables takes, where it is
// missing: the schema smelt with the versions and the keys of changed rows, and
// triggers on each table. A table on which no trigger is possible is compared by
// content at each poll, which Prepare logs. It may be called again and by several
// processes at once. A table or a key column that is not there is an ErrPipeline.
func (db *DB) Prepare(ctx context.Context, refs []smelt.Reference) error {
	if len(refs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := db.prepare(ctx, refs); err != nil {
		return fmt.Errorf("prepare references: %w", db.explain(err))
	}
	return nil
}

func (db *DB) prepare(ctx context.Context, refs []smelt.Reference) error {
	relations, err := describe(ctx, db.pool, refs)
	if err != nil {
		return err
	}
	if err := db.prepareSchema(ctx); err != nil {
		return err
	}
	for _, r := range relations {
		if !r.followable {
			db.logHashed(ctx, r, "its changes fire no trigger")
			continue
		}
		if err := db.follow(ctx, r); err != nil {
			return fmt.Errorf("follow %s: %w", r.name, err)
		}
	}
	return nil
}

func (db *DB) logHashed(ctx context.Context, r relation, reason string) {
	db.Log.InfoContext(ctx, "reference table is compared by content at each poll", "reference", r.ref.Name, "table", r.name, "reason", reason)
}

// follow puts the triggers on a reference's table that it lacks and begins the
// log of its changed keys.
func (db *DB) follow(ctx context.Context, r relation) error {
	missing, err := r.missing(ctx, db.pool)
	if err != nil {
		return err
	}
	switch {
	case len(missing) == 0:
	case r.mayTrigger:
		if err := db.createTriggers(ctx, r.ref); err != nil {
			return fmt.Errorf("create triggers: %w", err)
		}
	case r.trigger == "":
		db.logHashed(ctx, r, "the role lacks the right TRIGGER on it")
		return nil
	}
	l, err := db.keepLog(ctx, r)
	if err == nil && l.triggers == "" {
		db.Log.InfoContext(ctx, "each change to a reference table counts as one to all of its rows", "reference", r.ref.Name, "table", r.name,
			"reason", "not all triggers smelt_key_* are there and switched on")
	}
	return err
}

// createTriggers creates what is missing, unless another process has just done so.
func (db *DB) createTriggers(ctx context.Context, ref smelt.Reference) error {
	return db.setUp(ctx, func(tx pgx.Tx) error {
		relations, err := describe(ctx, tx, []smelt.Reference{ref})
		if err != nil {
			return err
		}
		missing, err := relations[0].missing(ctx, tx)
		if err != nil {
			return err
		}
		for _, t := range missing {
			if _, err := tx.Exec(ctx, t.create); err != nil {
				return err
			}
		}
		return nil
	})
}
