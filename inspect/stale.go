package inspect

import (
	"context"
	"time"

	"smelt/internal/human"
	"smelt/internal/ledger"
)

// Stale are the rows of silver that are older than the last change of their row of
// one reference.
type Stale struct {
	Reference string `json:"reference"`
	Rows      int64  `json:"rows"`      // enriched with a row that has changed or gone since
	Unmatched int64  `json:"unmatched"` // that found none, where there was a change since
	Exact     bool   `json:"exact"`     // false: Rows is the most that there can be
}

// Backfill is the snapshot of silver that a backfill has made.
type Backfill struct {
	Snapshot int64     `json:"snapshot"`
	At       time.Time `json:"at"`
	Scope    string    `json:"scope"` // flags of the command; "unmatched" for healing by smelt run
}

// String writes the backfill as a line has it.
func (b *Backfill) String() string {
	scope := b.Scope
	if scope == "unmatched" {
		scope = "by itself, of rows that found their reference"
	}
	return b.At.UTC().Format(time.DateTime) + ", " + scope
}

// lastBackfill looks for the last backfill among silver's snapshots.
func (g *gathering) lastBackfill() {
	if g.tables.silver == nil {
		return
	}
	for _, s := range g.tables.silver.Ancestors() {
		if scope, ok := s.Summary[ledger.BackfillScope]; ok {
			g.LastBackfill = &Backfill{Snapshot: s.ID, At: s.Time, Scope: scope}
			return
		}
	}
}

// stale counts the rows that were enriched with older versions of references.
func (g *gathering) stale(ctx context.Context) {
	if g.CountStale == nil {
		return
	}
	if g.tables.silver == nil {
		g.Stale = []Stale{}
		return
	}
	stale, err := g.CountStale(ctx, g.pipeline, g.tables.silver)
	if err != nil {
		g.errs, g.staleErr = append(g.errs, err), err
		return
	}
	g.Stale = append([]Stale{}, stale...) // never null
}

// staleTrouble reports which rows need a backfill, with the command.
func (g *gathering) staleTrouble() {
	if g.staleErr != nil {
		g.say(settings, "It is unknown whether rows were enriched with older versions of references: %v.", g.staleErr)
	}
	name := g.pipeline.Name
	command := "./bin/smelt backfill " + name + " --reference-changes"
	for _, s := range g.Stale {
		switch {
		case s.Rows > 0 && s.Exact:
			g.say(command, "%s of silver.%s %s enriched with an older version of %s.", s.rows(), name, were(s.Rows), s.Reference)
		case s.Rows > 0:
			g.say(command, "%s of silver.%s were enriched with an older version of %s. They are too many to be counted here: the command counts them, and asks.", s.rows(), name, s.Reference)
		}
		if s.Unmatched > 0 && !g.Heals {
			g.say(command, "%s of silver.%s found no row of %s, which has changed since; they are not healed because SMELT_HEAL=false.",
				human.Count(s.Unmatched, "row"), name, s.Reference)
		}
	}
}

// rows writes how many rows there are, or may be.
func (s Stale) rows() string {
	if s.Exact {
		return human.Count(s.Rows, "row")
	}
	return "Up to " + human.Count(s.Rows, "row")
}

func were(n int64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
