package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"smelt"
	"smelt/internal/human"
	"smelt/internal/table"
)

// tagCmd gives a snapshot a name, or takes it away.
type tagCmd struct {
	Table    string `arg:"" help:"Name of the table, such as silver.sensors."`
	Name     string `arg:"" help:"Name of the tag."`
	Snapshot string `xor:"what" placeholder:"SNAPSHOT|TAG|TIME" help:"What to tag, instead of the newest snapshot: an id, a tag, or a time, such as 2h for what was there two hours ago."`
	Delete   bool   `xor:"what" help:"Delete the tag."`
}

// Run sets the tag, which keeps the snapshot and its files until it is deleted.
func (c tagCmd) Run(ctx context.Context, s *settings, io *streams) error {
	if err := c.check(); err != nil {
		return usageError{err}
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
	if c.Delete {
		if err := lake.Tables.Untag(ctx, c.Table, c.Name); err != nil {
			return asUsage(err)
		}
		_, err := fmt.Fprintf(io.Out, "%s has no tag %s any more; what nothing else keeps is deleted in time\n", c.Table, c.Name)
		return err
	}
	target, err := resolve(t, c.Snapshot)
	if err != nil {
		return err
	}
	if err := lake.Tables.Tag(ctx, c.Table, c.Name, target.ID, 0); err != nil {
		return asUsage(err)
	}
	_, err = fmt.Fprintf(io.Out, "%s of %s is %s; it is kept until the tag is deleted\n", c.Name, c.Table, described(target))
	return err
}

// check refuses names that a person may not use.
func (c tagCmd) check() error {
	switch own := strings.HasPrefix(c.Name, table.TagPrefix); {
	case own && c.Delete:
		return fmt.Errorf("tags that begin with %s are smelt's own; it deletes them after %d days", table.TagPrefix, int(table.TagAge.Hours()/24))
	case own:
		return fmt.Errorf("tags that begin with %s are smelt's own; choose another name", table.TagPrefix)
	}
	if c.Delete { // with any name
		return nil
	}
	return table.CheckTag(c.Name)
}

// resolve finds the snapshot that a person means; "" is the newest of main.
func resolve(t *table.Table, at string) (table.Snapshot, error) {
	if at != "" {
		s, err := t.Resolve(at)
		return s, asUsage(err)
	}
	s, ok := t.Current()
	if !ok {
		return s, usagef("%s has no snapshot yet", t.Name())
	}
	return s, nil
}

// asUsage makes a mistake of the caller's out of an error that says that
// something is not there, or is there already.
func asUsage(err error) error {
	if errors.Is(err, smelt.ErrNotFound) || errors.Is(err, smelt.ErrExists) {
		return usageError{err}
	}
	return err
}

// described says which snapshot it is, for a person.
func described(s table.Snapshot) string {
	text := fmt.Sprintf("snapshot %d of %s UTC", s.ID, s.Time.Format(time.DateTime))
	if n := figure(s, "total-records"); n != nil {
		text += fmt.Sprintf(", %s rows", human.Number(*n))
	}
	return text
}
