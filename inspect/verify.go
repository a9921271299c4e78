package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Verifier recounts lakes.
type Verifier struct {
	Area      staging.Area
	Duck      *duck.DB
	RecordMax int // bytes of the largest record that bronze embeds

	goldBytes int64 // of silver on the local disk at a time while a model is run; goldBytes when zero
}

// Verdict is a receipt that was recounted, row by row.
type Verdict struct {
	Receipt
	Unmatched   int64            `json:"unmatched"`   // silver rows that found no reference row
	Quarantined map[string]int64 `json:"quarantined"` // by reason
	Mismatches  []Mismatch       `json:"mismatches"`  // empty: everything adds up
}

// Mismatch is one thing that does not add up.
type Mismatch struct {
	Check    string   `json:"check"`    // which equation, in a word or two
	Table    string   `json:"table"`    // where
	Count    int64    `json:"count"`    // how many records or rows
	Examples []string `json:"examples"` // lineage (partition:offset), or windows of gold
	Message  string   `json:"message"`  // a sentence with the examples, and what to do
}

// Err is nil when everything adds up, and else marked smelt.ErrVerify.
func (v Verdict) Err() error {
	switch n := len(v.Mismatches); n {
	case 0:
		return nil
	case 1:
		return smelt.Mark(smelt.ErrVerify, fmt.Errorf("%s: one thing does not add up", v.Pipeline))
	default:
		return smelt.Mark(smelt.ErrVerify, fmt.Errorf("%s: %d things do not add up", v.Pipeline, n))
	}
}

// attempts is how often a recount begins again when a snapshot or a file that
// it reads expires under it. Expiry spares what is younger than ten minutes, so
// more than one is rare already.
const attempts = 4

// errGone says that a snapshot has expired since its table was loaded.
var errGone = errors.New("the snapshot has expired")

// Verify recounts a pipeline's lake: bronze up to silver's position, all rows of silver and quarantine, and every
// model's SQL over the silver snapshot of its gold table. The error is of the recount itself. The verdict has
// what does not add up.
func (v Verifier) Verify(ctx context.Context, p *smelt.Pipeline) (Verdict, error) {
	for attempt := 1; ; attempt++ {
		verdict, err := v.recount(ctx, p)
		gone := errors.Is(err, errGone) || errors.Is(err, smelt.ErrNotFound)
		switch {
		case err == nil:
			return verdict, nil
		case gone && attempt == attempts:
			return Verdict{}, smelt.Mark(smelt.ErrVerify, fmt.Errorf("verify %s: what a table's snapshot names is not in the lake: %w", p.Name, err))
		case errors.Is(err, table.ErrRowDeletes): // another engine's: what they leave of the files is not smelt's to count
			return Verdict{}, smelt.Mark(smelt.ErrVerify, fmt.Errorf("verify %s: %w", p.Name, err))
		case !gone:
			return Verdict{}, fmt.Errorf("verify %s: %w", p.Name, err)
		}
	}
}

// recounting is one recount.
type recounting struct {
	Verifier
	tables
	pipeline *smelt.Pipeline
	session  *duck.Session
	dir      string                // for bronze objects on their way
	retired  map[int32]bronze.Meta // by partition: the object from which records were retired
	verdict  Verdict
}

func (v Verifier) recount(ctx context.Context, p *smelt.Pipeline) (_ Verdict, err error) {
	r := &recounting{Verifier: v, pipeline: p, retired: map[int32]bronze.Meta{}}
	if r.tables, err = load(ctx, v.Area.Lake, p); err != nil {
		return Verdict{}, err
	}
	if r.session, err = v.Duck.Session(ctx); err != nil {
		return Verdict{}, err
	}
	defer func() { err = errors.Join(err, r.session.Close()) }()
	if r.dir, err = v.Duck.TempDir(); err != nil {
		return Verdict{}, err
	}
	defer os.RemoveAll(r.dir)
	r.verdict = Verdict{
		Receipt:     Receipt{Pipeline: p.Name, Gold: []GoldCount{}, FreshSeconds: since(r.newestInGold(), time.Now())},
		Quarantined: map[string]int64{}, Mismatches: []Mismatch{},
	}
	steps := []func(context.Context) error{
		r.prepare, r.countBronze, r.countSilver, r.countQuarantine, r.compare, r.compareLedger, r.compareGold,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return Verdict{}, err
		}
	}
	return r.verdict, nil
}

// mismatch notes what does not add up.
func (r *recounting) mismatch(check, table string, count int64, examples []string, format string, args ...any) {
	if examples == nil {
		examples = []string{}
	}
	r.verdict.Mismatches = append(r.verdict.Mismatches, Mismatch{check, table, count, examples, fmt.Sprintf(format, args...)})
}

// compareLedger holds the counts that silver's ledger keeps against what was counted.
func (r *recounting) compareLedger(context.Context) error {
	if r.silver == nil || !r.recorded {
		return nil
	}
	l, table, v := r.silverLedger, r.silver.Name(), &r.verdict
	r.ledgerCount(table, "records read from bronze", l.Records, v.Bronze)
	r.ledgerCount(table, "tombstones", l.Tombstones, v.Tombstones)
	r.ledgerCount(table, "rows that retention took out", l.Retired, v.Retired)
	r.ledgerCount(table, "rows", l.Rows(), v.Silver)
	r.ledgerCount(table, "rows that found no reference row", l.Unmatched, v.Unmatched)
	if r.parted {
		return nil // quarantine is that of another state of silver
	}
	for _, reason := range keys(v.Quarantined, l.Quarantined) {
		r.ledgerCount(table, fmt.Sprintf("rejects with the reason %q", reason), l.Quarantined[reason], v.Quarantined[reason])
	}
	return nil
}

func (r *recounting) ledgerCount(table, what string, noted, counted int64) {
	if noted == counted {
		return
	}
	r.mismatch("ledger", table, max(noted-counted, counted-noted), nil,
		"The ledger of %s notes %d %s, but %d were counted. If nothing else is reported, the data is complete and only this count is wrong.",
		table, noted, what, counted)
}
