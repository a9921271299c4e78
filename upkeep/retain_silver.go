package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
	"smelt/silver"
)

// silverRetention takes files out of silver whose rows are all older than retain:
// says, by their event time. The same commit counts them in the ledger, and notes
// the time from which on silver is whole: windows of gold that begin before it are
// frozen from then on. So nothing goes that a gold table has not taken in yet.
//
// Tags and snapshots keep what they have. A rollback to one of before brings the
// rows back, and the ledger with them.
type silverRetention struct{ Config }

func retainSilver(cfg Config) Task {
	r := silverRetention{cfg}
	return Task{Table: silver.TableName(cfg.Pipeline.Name), Kind: KindRetain, Every: retainEvery, Plan: r.plan}
}

// retiring is what is to go.
type retiring struct {
	silver *table.Table
	head   table.Snapshot
	before ledger.Silver
	cutoff time.Time
	files  []table.File
}

func (r silverRetention) plan(ctx context.Context, now time.Time) ([]Job, error) {
	out, err := r.find(ctx, now)
	if err != nil || len(out.files) == 0 {
		return nil, err
	}
	return []Job{{
		Table: out.silver.Name(), Kind: KindRetain, What: goes(out.files, out.cutoff), Before: sizeOf(out.files), Run: r.run,
	}}, nil
}

// find finds files whose rows are all old enough.
func (r silverRetention) find(ctx context.Context, now time.Time) (out retiring, err error) {
	// Iceberg keeps microseconds, and so do the windows that are compared with it.
	out.cutoff = now.Add(-r.Pipeline.Retain.Silver).UTC().Truncate(time.Microsecond)
	t, files, err := newestOf(ctx, r.Area.Lake, silver.TableName(r.Pipeline.Name))
	if err != nil || len(files) == 0 {
		return out, err
	}
	var recorded bool
	out.silver = t
	out.head, _ = t.Current()
	if out.before, _, recorded, err = ledger.Read[ledger.Silver](t); err != nil || !recorded {
		return out, err
	}
	out.files = older(files, r.Pipeline.Events.Time, out.cutoff)
	return out, nil
}

// run takes the files out.
func (r silverRetention) run(ctx context.Context) (Done, error) {
	name := silver.TableName(r.Pipeline.Name)
	unlock, err := r.Locker.Lock(ctx, name)
	if err != nil {
		return Done{}, err
	}
	defer unlock()
	models, err := r.models(ctx) // before silver, so that silver is at least as new
	if err != nil {
		return Done{}, err
	}
	out, err := r.find(ctx, time.Now())
	if err != nil || len(out.files) == 0 {
		return Done{Lost: "there is nothing of it left"}, err
	}
	for _, m := range models {
		if why, err := r.lacks(ctx, m, out); why != "" || err != nil {
			return Done{Lost: why}, err
		}
	}
	after, err := r.account(ctx, out)
	if err != nil {
		return Done{}, fmt.Errorf("retain %s: %w", name, err)
	}
	change := table.Change{Remove: out.files}
	if err := ledger.Write(&change, after); err != nil {
		return Done{}, err
	}
	change.Summary[ledger.Maintenance] = KindRetain
	_, err = out.silver.Commit(ctx, change)
	if errors.Is(err, table.ErrConflict) {
		return Done{Lost: "another commit came first"}, nil
	}
	if err != nil {
		return Done{}, fmt.Errorf("retain %s: %w", name, err)
	}
	r.Log.Info("retired", "table", name, "rows", after.Retired-out.before.Retired, "files", len(out.files), "before", out.cutoff)
	return Done{Before: sizeOf(out.files)}, nil
}

// computed is a gold table and its ledger.
type computed struct {
	smelt.Model
	table    string
	ledger   ledger.Gold
	recorded bool
}

// models are the gold tables of the pipeline.
func (r silverRetention) models(ctx context.Context) (out []computed, err error) {
	for _, m := range r.Pipeline.Gold {
		c := computed{Model: m, table: gold.TableName(r.Pipeline.Name, m.Name)}
		t, err := r.Area.Lake.Load(ctx, c.table)
		if err == nil {
			c.ledger, _, c.recorded, err = ledger.Read[ledger.Gold](t)
		}
		if err != nil && !errors.Is(err, smelt.ErrNotFound) {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// lacks says why rows must stay for a gold table; "" when it has all of the windows
// that the cutoff freezes. The last of them may have rows that are younger.
func (r silverRetention) lacks(ctx context.Context, m computed, out retiring) (string, error) {
	if !m.recorded || m.ledger.Model != gold.Digest(m.Model) {
		return m.table + " has not been computed yet", nil
	}
	added, removed, err := out.silver.Changes(ctx, m.ledger.SilverSnapshot, out.head.ID)
	if errors.Is(err, table.ErrUnknown) {
		return "it is unknown what " + m.table + " has of it", nil
	}
	if err != nil {
		return "", err
	}
	after := out.before
	after.Retained = later(out.before.Retained, out.cutoff)
	floor, next := gold.Floor(m.Window, out.before, m.ledger), gold.Floor(m.Window, after, m.ledger)
	for _, f := range append(added, removed...) {
		oldest, newest, ok := f.Range(r.Pipeline.Events.Time)
		if !ok || gold.Frozen(m.Window, oldest, next) && !gold.Frozen(m.Window, newest, floor) {
			return m.table + " does not have all of it yet", nil
		}
	}
	return "", nil
}

// account works out the ledger after the commit.
func (r silverRetention) account(ctx context.Context, out retiring) (ledger.Silver, error) {
	after := out.before
	after.Retained = later(out.before.Retained, out.cutoff)
	after.Retired += rowsOf(out.files)
	var unknown []table.File
	for _, f := range out.files {
		if nulls, ok := f.Nulls(unmatchedColumn); ok {
			after.Unmatched -= f.Rows - nulls
		} else {
			unknown = append(unknown, f)
		}
	}
	counted, err := r.unmatched(ctx, out.silver, unknown)
	after.Unmatched -= counted
	return after, err
}

// unmatchedColumn is the column of silver that names the references without a row.
const unmatchedColumn = "_unmatched"

// unmatched counts the rows without a reference row in files whose writer has not counted them.
func (r silverRetention) unmatched(ctx context.Context, t *table.Table, files []table.File) (n int64, err error) {
	if len(files) == 0 {
		return 0, nil
	}
	session, err := r.Duck.Session(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for _, batch := range staging.Batches(files, staging.FileSize, batchFiles, batchBytes) {
		paths, release, err := r.Area.Fetch(ctx, batch)
		if err != nil {
			return 0, err
		}
		var found int64
		err = session.Row(ctx, "SELECT count("+unmatchedColumn+") FROM "+duck.ReadParquet(t.Columns(), paths), &found)
		release()
		if err != nil {
			return 0, err
		}
		n += found
	}
	return n, nil
}
