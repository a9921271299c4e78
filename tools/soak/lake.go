package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"
)

// readTable reads a table of the lake with a statement whose first columns tell its
// rows apart.
func (f *fleet) readTable(ctx context.Context, statement string, keys int, floats ...int) (rows, error) {
	got := rows{table: table{}}
	read := func(r io.Reader) error {
		in := csv.NewReader(r)
		if _, err := in.Read(); err != nil { // the header
			return err
		}
		for {
			cells, err := in.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			for _, i := range floats {
				number, err := strconv.ParseFloat(cells[i], 64)
				if err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
				cells[i] = float(number)
			}
			got.add(cells, keys)
		}
	}
	return got, f.stream(ctx, f.direct, read, "query", "--csv", "-c", statement)
}

// place of a record in a layer, as SQL.
const placeSQL = "_partition_id || ':' || _partition_offset"

// compareAll compares every layer of a pipeline with its expected content, and returns the rows of each.
func (f *fleet) compareAll(ctx context.Context, p pipeline, records []held, places map[string]place) ([]layerCount, error) {
	silver, err := f.readTable(ctx, fmt.Sprintf("SELECT %s, %s FROM silver.%s", placeSQL, strings.Join(p.columns, ", "), p.name), 1, p.floats...)
	if err != nil {
		return nil, err
	}
	bronze, err := f.readTable(ctx, fmt.Sprintf("SELECT %s, epoch_ms(_timestamp), %s, %s, md5(%s) FROM bronze.%s",
		placeSQL, orNone("_key"), orNone("_headers->>'"+kindHeader+"'"), orNone("_value"), p.name), 1)
	if err != nil {
		return nil, err
	}
	quarantine, err := f.readTable(ctx, fmt.Sprintf("SELECT %s, reason, coalesce(field, ''), CASE WHEN reason = 'duplicate' THEN detail ELSE '' END FROM quarantine.%s",
		placeSQL, p.name), 1)
	if err != nil {
		return nil, err
	}
	want, err := workOut(p, records, places, silver.table)
	if err != nil {
		return nil, err
	}
	var counts []layerCount
	note := func(name string, want table, got rows) {
		told, n := compare(name, want, got)
		f.t.differences(told, n)
		counts = append(counts, layerCount{name, len(want), len(got.table) + len(got.twice), n})
	}
	note("bronze."+p.name, want.bronze, bronze)
	note("silver."+p.name, want.silver, silver)
	note("quarantine."+p.name, want.quarantine, quarantine)
	for i, m := range p.models {
		got, err := f.readTable(ctx, fmt.Sprintf("SELECT %s FROM gold.%s_%s", strings.Join(m.columns, ", "), p.name, m.name), m.keys, m.floats...)
		if err != nil {
			return nil, err
		}
		note("gold."+p.name+"_"+m.name, want.gold[i], got)
	}
	return counts, nil
}

// layerCount is how a table compares with the truth.
type layerCount struct {
	name            string
	want, have, bad int
}

// drained waits until a pipeline's layers have every record of its topic.
func (f *fleet) drained(ctx context.Context, p pipeline, records, tombstones int) error {
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	statement := fmt.Sprintf("SELECT (SELECT count(*) FROM bronze.%[1]s), (SELECT count(*) FROM silver.%[1]s) + (SELECT count(*) FROM quarantine.%[1]s)", p.name)
	said := ""
	for {
		got, err := f.smelt(ctx, f.direct, patience, "query", "--csv", "-c", statement)
		if err == nil && got.code == 0 {
			bronze, refined, err := twoNumbers(got.out)
			if err == nil && bronze >= int64(records) && refined >= int64(records-tombstones) {
				return nil
			}
		}
		said = got.out + got.err
		if !sleep(ctx, startAgain) {
			return fmt.Errorf("%s did not process its topic within %s: %d records, %d of them tombstones; bronze, silver and quarantine have: %s",
				p.name, drainPatience, records, tombstones, said)
		}
	}
}

// drainPatience bounds the time that the line may take for what is left at the end.
const drainPatience = 20 * time.Minute

// checkTopic compares a topic with what was sent: all that was acknowledged is there.
func checkTopic(g *generator, records []held, t *tally) {
	acknowledged := maps.Clone(g.acknowledged)
	seen, repeated := map[string]bool{}, 0
	for _, r := range records {
		if key, ok := acknowledged[r.lineage]; ok && key == r.key {
			delete(acknowledged, r.lineage)
		}
		if seen[r.key] {
			repeated++
		}
		seen[r.key] = true
	}
	if repeated > 0 {
		t.count(groupOperations, "events that the producer's retries put into a topic twice", repeated)
	}
	for at, key := range acknowledged {
		t.discrepancy("%s: %s was acknowledged at %v, and is not there", g.pipeline.topic, key, at)
	}
}
