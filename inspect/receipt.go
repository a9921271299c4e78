package inspect

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/table"
)

// Receipt says what became of a pipeline's records. Its keys in JSON are stable.
type Receipt struct {
	Pipeline     string      `json:"pipeline"`
	Bronze       int64       `json:"bronze"`        // records that silver has read
	OnTheirWay   int64       `json:"on_their_way"`  // records of bronze that silver has not read yet
	Silver       int64       `json:"silver"`        // rows
	Quarantine   int64       `json:"quarantine"`    // rows
	Tombstones   int64       `json:"tombstones"`    // records without a value
	Retired      int64       `json:"retired"`       // rows that were in silver until retention took them out
	OK           bool        `json:"ok"`            // every record of Bronze is in one of the four
	Gold         []GoldCount `json:"gold"`          // one a model, as declared
	FreshSeconds *float64    `json:"fresh_seconds"` // age of the newest event that all of gold has; null without one
}

// GoldCount is the part of a receipt that a gold table has.
type GoldCount struct {
	Table      string `json:"table"`
	SilverRows int64  `json:"silver_rows"` // of silver as it was when the table was computed
	Computed   bool   `json:"computed"`    // false: there is nothing in the table yet
	OK         bool   `json:"ok"`          // it is what its SQL gives; a receipt that was not recounted takes it to be
}

// Ready says which layers have data.
type Ready struct{ Bronze, Silver, Gold bool }

// All says whether every layer has.
func (r Ready) All() bool { return r.Bronze && r.Silver && r.Gold }

// Ready says which layers have data; gold has when all of its tables have.
func (r Receipt) Ready() Ready {
	computed := func(g GoldCount) bool { return g.Computed && g.SilverRows > 0 }
	return Ready{
		Bronze: r.Bronze+r.OnTheirWay > 0,
		Silver: r.Silver > 0,
		Gold:   !slices.ContainsFunc(r.Gold, func(g GoldCount) bool { return !computed(g) }),
	}
}

// String writes the receipt as one line, without the pipeline's name.
func (r Receipt) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bronze %d = silver %d + quarantine %d", r.Bronze, r.Silver, r.Quarantine)
	if r.Tombstones > 0 {
		fmt.Fprintf(&b, " + tombstones %d", r.Tombstones)
	}
	if r.Retired > 0 {
		fmt.Fprintf(&b, " + retired %d", r.Retired)
	}
	b.WriteString(" " + tick(r.OK))
	if r.OnTheirWay > 0 {
		fmt.Fprintf(&b, "  + %d on their way", r.OnTheirWay)
	}
	for _, g := range r.distinct() {
		b.WriteString("  " + g)
	}
	if r.FreshSeconds != nil {
		b.WriteString("  fresh " + age(*r.FreshSeconds))
	}
	return b.String()
}

// distinct writes the gold tables: once for all when they are alike.
func (r Receipt) distinct() []string {
	var counts []string
	for _, g := range r.Gold {
		text := "is empty"
		if g.Computed {
			text = fmt.Sprintf("%d %s", g.SilverRows, tick(g.OK))
		}
		counts = append(counts, text)
	}
	if len(slices.Compact(slices.Clone(counts))) == 1 {
		return []string{"gold " + counts[0]}
	}
	for i, g := range r.Gold {
		counts[i] = g.Table + " " + counts[i]
	}
	return counts
}

func tick(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

// age writes a duration in its one fitting unit.
func age(seconds float64) string {
	switch {
	case seconds < 10:
		return fmt.Sprintf("%.1f s", math.Max(seconds, 0))
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 2*60*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 48*60*60:
		return fmt.Sprintf("%.0f h", seconds/(60*60))
	}
	return fmt.Sprintf("%.0f days", seconds/(24*60*60))
}

// since is the age of a time, or nil for the zero time.
func since(t, now time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	seconds := now.Sub(t).Seconds()
	return &seconds
}

// Count makes a receipt from the ledgers, the tables' metadata and the ends of bronze's chains. It takes a few
// requests, whatever the size of the lake.
func Count(ctx context.Context, objects smelt.Store, lake *table.Lake, p *smelt.Pipeline, now time.Time) (Receipt, error) {
	t, err := load(ctx, lake, p)
	if err != nil {
		return Receipt{}, err
	}
	ends, err := bronze.NewReader(objects, p.Name).Ends(ctx)
	if err != nil {
		return Receipt{}, err
	}
	r, err := t.receipt(ctx, p, now)
	if err != nil {
		return Receipt{}, err
	}
	r.OnTheirWay = max(0, chainRecords(ends)-r.Bronze)
	return r, nil
}

// receipt adds up what the tables say; what is on its way it leaves out.
func (t *tables) receipt(ctx context.Context, p *smelt.Pipeline, now time.Time) (Receipt, error) {
	l := t.silverLedger
	r := Receipt{Pipeline: p.Name, Bronze: l.Records, Tombstones: l.Tombstones, Retired: l.Retired, Gold: []GoldCount{}}
	var err error
	if r.Silver, err = rows(ctx, t.silver); err != nil {
		return r, err
	}
	if r.Quarantine, err = rows(ctx, t.quarantine); err != nil {
		return r, err
	}
	r.OK = r.whole()
	for _, g := range t.gold {
		r.Gold = append(r.Gold, GoldCount{Table: g.name, SilverRows: g.ledger.SilverRows, Computed: g.recorded, OK: true})
	}
	r.FreshSeconds = since(t.newestInGold(), now)
	return r, nil
}

// whole says whether every record that silver has read is somewhere.
func (r Receipt) whole() bool { return r.Bronze == r.Silver+r.Quarantine+r.Tombstones+r.Retired }

// newestInGold is the newest event that every gold table has, or zero.
func (t *tables) newestInGold() (newest time.Time) {
	for i, g := range t.gold {
		if i == 0 || g.ledger.Newest.Before(newest) {
			newest = g.ledger.Newest
		}
	}
	return newest
}

// chainRecords is how many records bronze says that it has.
func chainRecords(ends map[int32]bronze.Meta) (n int64) {
	for _, m := range ends {
		n += m.Chain.Count
	}
	return n
}
