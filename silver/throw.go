package silver

import (
	"context"
	"fmt"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/events"
)

// brokenRecords is how many records must fail, with none that succeeds, before silver.sql
// counts as broken. Fewer go to quarantine, so one bad record in a quiet stream is not
// taken for a broken pipeline.
const brokenRecords = 100

// setAside finds the records on which silver.sql or an expectation throws, and makes them
// faults. The other records can then be refined again. It returns an error if the SQL
// fails without any record, or on each of many records. It returns the cause if no single
// record throws.
//
// rows is a relation with silver's columns over the records that are shown.
func (r *Refiner) setAside(ctx context.Context, cause error, rows string, partition []duck.PartitionValue) error {
	t := &thrower{refiner: r, cause: cause, probe: r.probe(rows, partition)}
	if thrown, err := t.throws(ctx, nil); err != nil || thrown != nil {
		return r.transform.broken(cause, "it fails without any record", err)
	}
	if err := t.split(ctx, r.records.good); err != nil {
		return err
	}
	if len(t.thrown) == 0 {
		return cause
	}
	bad := map[int32]bool{}
	for _, f := range t.thrown {
		bad[f.row] = true
	}
	good := r.records.good[:0]
	for _, row := range r.records.good {
		if !bad[row] {
			good = append(good, row)
		}
	}
	r.records.good, r.records.faults = good, append(r.records.faults, t.thrown...)
	at, offset := r.records.lineage(t.thrown[0].row)
	r.Log.Warn("silver.sql throws on records; they go to quarantine", "pipeline", r.Pipeline.Name, "records", len(t.thrown),
		"first", fmt.Sprintf("%d:%d", at, offset), "error", t.thrown[0].Detail)
	return nil
}

// probe is a query that evaluates each column of silver, each expectation and all that
// places a row, over the records that are shown.
func (r *Refiner) probe(rows string, partition []duck.PartitionValue) string {
	exprs := []string{r.transform.failed()}
	for _, c := range r.transform.columns {
		exprs = append(exprs, "s."+duck.Quote(c.Name))
	}
	for _, expr := range r.keys().exprs {
		exprs = append(exprs, fmt.Sprintf(expr, "s"))
	}
	for _, p := range partition {
		exprs = append(exprs, p.Expr)
	}
	for i, e := range exprs {
		exprs[i] = "bit_xor(hash(" + e + "))" // an aggregate of each value: none can be left out
	}
	return "SELECT " + strings.Join(exprs, ", ") + " FROM " + rows + " AS s"
}

// thrower finds records that throw, by halves.
type thrower struct {
	refiner *Refiner
	probe   string
	cause   error
	thrown  []fault
	fine    int // records that do not throw
}

// split searches records, some of which may throw.
func (t *thrower) split(ctx context.Context, rows []int32) error {
	err, failed := t.throws(ctx, rows)
	switch {
	case failed != nil:
		return failed
	case err == nil:
		t.fine += len(rows)
		return nil
	case len(rows) == 1:
		t.thrown = append(t.thrown, fault{rows[0], sqlFault(err)})
		if t.fine == 0 && len(t.thrown) >= brokenRecords {
			partition, offset := t.refiner.records.lineage(t.thrown[0].row)
			return t.refiner.transform.broken(t.cause, fmt.Sprintf("it fails on each of %d records, such as %d:%d", len(t.thrown), partition, offset), nil)
		}
		return nil
	}
	half := len(rows) / 2
	if err := t.split(ctx, rows[:half]); err != nil {
		return err
	}
	return t.split(ctx, rows[half:])
}

// throws evaluates everything over some records. thrown is what the SQL throws; failed
// is any other error.
func (t *thrower) throws(ctx context.Context, rows []int32) (thrown, failed error) {
	t.refiner.shown.Only = rows
	err := t.refiner.session.Chunks(ctx, t.probe, func(duck.Chunk) error { return nil })
	if err == nil || duck.Thrown(err) {
		return err, nil
	}
	return nil, err
}

// sqlFault is the fault of a record on which SQL throws. Its field is the column that
// DuckDB names, its detail DuckDB's message.
func sqlFault(err error) events.Fault {
	message := duck.Message(err)
	message, _, _ = strings.Cut(message, "\n") // the rest shows a generated statement
	f := events.Fault{Reason: ReasonSQLError, Detail: message}
	if _, after, ok := strings.Cut(message, "source column "); ok {
		f.Field, _, _ = strings.Cut(after, " ")
		f.Field = strings.Trim(f.Field, `".,`)
	}
	return f
}

// broken is the error of a silver.sql that no record is to blame for.
func (t *transformer) broken(cause error, why string, failed error) error {
	if failed != nil {
		return failed
	}
	return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%w. Correct silver.sql: %s", cause, why))
}
