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
	"smelt/internal/table"
	"smelt/silver"
)

// text says what will go.
func (d dropping) text(ctx context.Context, l *lake) (string, error) {
	var b strings.Builder
	fmt.Fprintln(&b, "What will be deleted, for good:")
	rows := [][]string{}
	for _, name := range d.tables {
		row, err := describeDrop(ctx, l, name)
		if err != nil {
			return "", err
		}
		rows = append(rows, row)
	}
	if len(d.bronze) > 0 {
		var n int64
		for _, o := range d.bronze {
			n += o.Size
		}
		rows = append(rows, []string{"  bronze." + d.pipeline, "", amount(int64(len(d.bronze)), "object") + ", " + human.Bytes(n), ""})
	}
	for _, line := range align(rows, 1) {
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	if len(d.unsure) > 0 {
		fmt.Fprintf(&b, "%s may be of another pipeline and stays: name it to drop it.\n", strings.Join(d.unsure, ", "))
	}
	switch silverGoes := slices.Contains(d.tables, silver.TableName(d.pipeline)); {
	case !d.whole.IsZero():
		fmt.Fprintf(&b, "Silver has retired rows from before %s (retain:), so windows from before CANNOT COME BACK.\n", d.whole.UTC().Format(time.DateTime))
	case len(d.bronze) > 0:
		fmt.Fprintln(&b, "A pipeline that runs again reads its topic from what is the log's beginning by then.")
	case silverGoes && d.retired > 0:
		fmt.Fprintf(&b, "Bronze stays, and a pipeline %s that runs again reads it from the beginning. %s, written up to %s, were retired (retain:), so their rows CANNOT COME BACK, "+
			"nor do windows that begin before.\n", d.pipeline, amount(d.retired, "record"), d.lastRetired.UTC().Format(time.DateTime))
	case silverGoes:
		fmt.Fprintf(&b, "Bronze stays: a pipeline %s that runs again reads all of it again.\n", d.pipeline)
	}
	return b.String(), nil
}

// describeDrop is a line about a table: rows, objects, and the names that others
// may count on.
func describeDrop(ctx context.Context, l *lake, name string) ([]string, error) {
	t, err := l.Tables.Load(ctx, name)
	if errors.Is(err, smelt.ErrNotFound) {
		return []string{"  " + name, "", "what an earlier drop has left", ""}, nil
	}
	if err != nil { // it can be dropped all the same
		return []string{"  " + name, "", "which cannot be read: " + err.Error(), ""}, nil
	}
	size, err := l.Tables.Measure(ctx, l.Tables.Key(t.Location()))
	if err != nil {
		return nil, err
	}
	rows := "no rows"
	if current, ok := t.Current(); ok {
		if n := figure(current, "total-records"); n != nil {
			rows = amount(*n, "row")
		}
	}
	var names []string
	for _, ref := range t.Names() {
		if !strings.HasPrefix(ref.Name, table.TagPrefix) && ref.Name != "main" {
			names = append(names, ref.Name)
		}
	}
	with := ""
	if len(names) > 0 {
		with = "with the tags and branches " + strings.Join(names, ", ")
	}
	return []string{"  " + name, rows, amount(int64(size.Objects), "object") + ", " + human.Bytes(size.Bytes), with}, nil
}
