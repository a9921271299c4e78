package main

import (
	"fmt"
	"strings"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/internal/table"
)

// scopeFlags are the flags that say which records are replayed.
type scopeFlags struct {
	ReferenceChanges bool   `group:"Scope" help:"Rows whose reference row has changed since they were enriched."`
	Where            string `group:"Scope" placeholder:"COND" help:"Rows that meet a condition on silver's columns."`
	From             string `group:"Scope" placeholder:"TIME" help:"Rows with an event time from here on; alone or with --where. RFC 3339, 2026-11-29 22:45, a date, in UTC; or a duration ago: 2h, 7d."`
	To               string `group:"Scope" placeholder:"TIME" help:"Rows with an event time before this."`
	Quarantined      bool   `group:"Scope" help:"Records in quarantine, after their cause was fixed."`
	Reason           string `group:"Scope" placeholder:"REASON" help:"Of those, the ones rejected for this reason."`
	All              bool   `group:"Scope" help:"Every row, after silver.sql has changed."`
}

// scopeKinds are the scopes. Exactly one must be given.
const scopeKinds = "--reference-changes, --where and/or --from/--to, --quarantined or --all"

// scope reads the flags.
func (c *scopeFlags) scope(p *smelt.Pipeline, now time.Time) (backfill.Scope, error) {
	var given []string
	for _, kind := range []struct {
		on   bool
		name string
	}{
		{c.ReferenceChanges, "--reference-changes"},
		{c.Where != "" || c.From != "" || c.To != "", "--where/--from/--to"},
		{c.Quarantined, "--quarantined"},
		{c.All, "--all"},
	} {
		if kind.on {
			given = append(given, kind.name)
		}
	}
	switch {
	case c.Reason != "" && !c.Quarantined:
		return backfill.Scope{}, usagef("--reason is of quarantined records: --quarantined --reason %q", c.Reason)
	case len(given) == 0:
		return backfill.Scope{}, usagef("which records? Give one of %s", scopeKinds)
	case len(given) > 1:
		return backfill.Scope{}, usagef("%s do not go together: give one of %s", strings.Join(given, " and "), scopeKinds)
	case c.ReferenceChanges && len(p.References) == 0:
		return backfill.Scope{}, usagef("--reference-changes: the pipeline %s has no references", p.Name)
	}
	from, err := moment("--from", c.From, now)
	if err != nil {
		return backfill.Scope{}, err
	}
	to, err := moment("--to", c.To, now)
	if err != nil {
		return backfill.Scope{}, err
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return backfill.Scope{}, usagef("--from %s (%s) is not before --to %s (%s)", c.From, instant(from), c.To, instant(to))
	}
	return backfill.Scope{
		ReferenceChanges: c.ReferenceChanges, Where: c.Where, From: from, To: to,
		All: c.All, Quarantined: c.Quarantined, Reason: c.Reason,
	}, nil
}

// moment reads a time; one that is not given is zero.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	when, ok := table.ParseTime(strings.TrimSpace(text), now)
	if !ok || when.IsZero() { // a zero time means no bound
		return time.Time{}, usageError{fmt.Errorf("%s %q is not a time, such as 2026-11-29T22:45:01Z, 2026-11-29 22:45 or 2026-11-29, in UTC, or 2h for two hours ago", flag, text)}
	}
	return when, nil
}

// instant writes a time to the second, in UTC.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
