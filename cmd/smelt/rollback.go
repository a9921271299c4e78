package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/human"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

const (
	// rollbackWait is how long a rollback waits for the writer of the table. A step usually takes a second or two.
	rollbackWait = 30 * time.Second

	// rollbackTries bounds how often a commit that comes first is given way to:
	// with the table's lock held only another engine's, or an expiry, can.
	rollbackTries = 5
)

// rollbackCmd moves a table back to what it was.
type rollbackCmd struct {
	Table string `arg:"" help:"Name of the table, such as silver.sensors."`
	To    string `arg:"" placeholder:"SNAPSHOT|TAG|TIME" help:"Where to: the id of a snapshot, a tag, or a time, such as 2h for what was there two hours ago."`
	Yes   bool   `help:"Do not ask."`
}

// Run says what will be, asks, moves the table, and says how to undo it.
func (c rollbackCmd) Run(ctx context.Context, s *settings, io *streams) error {
	layer, pipeline, _ := strings.Cut(c.Table, ".")
	if layer == "quarantine" {
		return usagef("%s is committed together with silver: roll back silver.%s instead, and both go back", c.Table, pipeline)
	}
	if c.To == "" { // as a variable that is not set leaves it
		return usagef("where to? Give a snapshot, a tag or a time, as smelt history %s shows them", c.Table)
	}
	lake, err := s.openLake(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	t, err := lake.named(ctx, c.Table)
	if err != nil {
		return err
	}
	to, err := resolve(t, c.To)
	if err != nil {
		return err
	}
	from, _ := t.Current()
	if from.ID == to.ID {
		_, err := fmt.Fprintf(io.Out, "%s is at %s already\n", c.Table, described(to))
		return err
	}
	plan, err := c.plan(t, from, to)
	if err != nil {
		return err
	}
	fmt.Fprint(io.Out, plan)
	if !c.Yes {
		if err := ask(ctx, io, "Roll back?"); err != nil {
			return err
		}
	}
	unlock, err := lake.lock(ctx, c.Table, io)
	if err != nil {
		return err
	}
	defer unlock()
	tag := "smelt-rollback-" + time.Now().UTC().Format("20060102T150405Z")
	if err := lake.rollBack(ctx, c.Table, from, to, tag); err != nil {
		return err
	}
	fmt.Fprintf(io.Out, "%s is at %s\n", c.Table, described(to))
	_, err = fmt.Fprintf(io.Err, "To undo it, within %d days:\n    ./bin/smelt rollback %s %s\n", int(table.TagAge.Hours()/24), c.Table, tag)
	return err
}

// plan says what the rollback does, or why it cannot be done.
func (c rollbackCmd) plan(t *table.Table, from, to table.Snapshot) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s goes\n  from  %s\n  to    %s\n", c.Table, described(from), described(to))
	switch layer, _, _ := strings.Cut(c.Table, "."); layer {
	case "silver":
		now, _, read, err := ledger.Read[ledger.Silver](t)
		if err != nil {
			return "", err
		}
		then, ok, err := ledger.At[ledger.Silver](t, to.ID)
		if err != nil {
			return "", err
		}
		if read && !ok {
			return "", c.unknown(to)
		}
		fmt.Fprintln(&b, "  "+replay(now, then))
	case "gold":
		_, _, computed, err := ledger.Read[ledger.Gold](t)
		if err != nil {
			return "", err
		}
		if computed && ledger.Carry(t, to.ID) == nil {
			return "", c.unknown(to)
		}
		fmt.Fprintln(&b, "  The next refresh brings it up to date again, unless silver is rolled back as well.")
	}
	return b.String(), nil
}

// unknown says why a table of smelt's cannot go to a snapshot: without a ledger
// its stage would go on from where it is now.
func (c rollbackCmd) unknown(to table.Snapshot) error {
	return usagef("%s cannot go to snapshot %d: no remaining snapshot up to it has smelt's position; ./bin/smelt history %s lists others",
		c.Table, to.ID, c.Table)
}

// replay says what the change of positions means.
func replay(now, then ledger.Silver) string {
	switch n := now.Records - then.Records; {
	case n > 0:
		return fmt.Sprintf("Positions go along: %s records are read again from bronze.", human.Number(n))
	case n < 0:
		return fmt.Sprintf("Positions go along: %s records more have been read there.", human.Number(-n))
	}
	return "Positions stay: no record is read again."
}

// lock takes the lock of a table, and waits for its holder.
func (l *lake) lock(ctx context.Context, name string, io *streams) (unlock func(), err error) {
	unlock, err = l.Database.TryLock(ctx, name)
	if !errors.Is(err, smelt.ErrLocked) {
		return unlock, err
	}
	fmt.Fprintf(io.Err, "waiting for %s, which is being written …\n", name)
	busy := fmt.Errorf("another process has been writing it for %s; nothing was done", rollbackWait)
	wait, cancel := context.WithTimeoutCause(ctx, rollbackWait, busy)
	defer cancel()
	unlock, err = l.Database.Lock(wait, name)
	if err != nil && ctx.Err() == nil && wait.Err() != nil {
		return nil, fmt.Errorf("lock %s: %w", name, busy)
	}
	return unlock, err
}

// rollBack moves a table on from the snapshot that was shown, or from what has
// been built on it since.
func (l *lake) rollBack(ctx context.Context, name string, from, to table.Snapshot, tag string) error {
	for try := 1; ; try++ {
		t, err := l.Tables.Load(ctx, name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(t.Ancestors(), func(s table.Snapshot) bool { return s.ID == from.ID }) {
			return fmt.Errorf("%s was moved away from snapshot %d meanwhile; nothing was done: look at ./bin/smelt history %s", name, from.ID, name)
		}
		if pipeline, ok := strings.CutPrefix(name, "silver."); ok {
			err = l.rollBackPair(ctx, pipeline, t, to, tag)
		} else {
			_, err = t.Rollback(ctx, to.ID, ledger.Carry(t, to.ID), tag)
		}
		if !errors.Is(err, table.ErrConflict) || try == rollbackTries {
			return asUsage(err)
		}
	}
}

// rollBackPair moves silver, as it was loaded, together with quarantine.
func (l *lake) rollBackPair(ctx context.Context, pipeline string, t *table.Table, to table.Snapshot, tag string) error {
	pair, err := silver.LoadPair(ctx, l.Tables, pipeline)
	if err != nil {
		return err
	}
	if pair.Silver == nil || pair.Silver.MetadataLocation() != t.MetadataLocation() {
		return table.ErrConflict
	}
	return pair.Rollback(ctx, l.Tables, to.ID, tag)
}
