package backfill

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"smelt/internal/duck"
	"smelt/internal/human"
	"smelt/internal/table"
	"smelt/silver"
)

// Plan is what a backfill would replay.
type Plan struct {
	Pipeline string        `json:"pipeline"`
	Scope    string        `json:"scope"`
	Keys     int64         `json:"keys"`       // keys of changed reference rows that rows in scope have; 0 unless that is the scope
	KeyName  string        `json:"key_column"` // the column that has them; "" when silver has none
	Records  int64         `json:"records"`    // to be replayed: rows of silver, or of quarantine
	Retired  int64         `json:"retired"`    // of them, rows that stay: bronze no longer has their records
	Files    int           `json:"files"`      // of silver that have such rows
	Objects  int           `json:"objects"`    // of bronze to be read
	Bytes    int64         `json:"bytes"`      // of them, compressed
	Windows  []WindowCount `json:"windows"`    // of gold that such rows lie in, by model
}

// WindowCount counts windows of a gold table.
type WindowCount struct {
	Table   string `json:"table"`
	Windows int64  `json:"windows"`
}

// Plan finds out what is in scope. It changes nothing.
func (j *Job) Plan(ctx context.Context) (Plan, error) {
	t, files, err := j.load(ctx)
	if err != nil {
		return Plan{}, err
	}
	if err := j.choose(ctx, t); err != nil {
		return Plan{}, err
	}
	if err := j.scan(ctx, files); err != nil {
		return Plan{}, err
	}
	if err := j.scanQuarantine(ctx); err != nil {
		return Plan{}, err
	}
	p := Plan{Pipeline: j.Pipeline.Name, Scope: j.scope.String(), KeyName: j.chosen.keyColumn, Windows: []WindowCount{}}
	err = j.session.Row(ctx, "SELECT count(*), count(DISTINCT file) FILTER (file >= 0), (SELECT count(DISTINCT key) FROM work.keys) FROM work.lineage", &p.Records, &p.Files, &p.Keys)
	if err != nil {
		return Plan{}, err
	}
	for _, m := range j.Pipeline.Gold {
		w := WindowCount{Table: "gold." + j.Pipeline.Name + "_" + m.Name}
		err := j.session.Row(ctx, fmt.Sprintf("SELECT count(DISTINCT time_bucket(to_microseconds(%d), happened, TIMESTAMPTZ '1970-01-01 00:00:00+00')) FROM work.lineage WHERE happened IS NOT NULL", m.Window.Microseconds()), &w.Windows)
		if err != nil {
			return Plan{}, err
		}
		p.Windows = append(p.Windows, w)
	}
	if p.Records == 0 {
		return p, nil
	}
	records, err := silver.ReadLineages(ctx, j.session, "work.lineage")
	if err != nil {
		return Plan{}, err
	}
	objects, err := j.objectsOf(ctx, records)
	if err != nil {
		return Plan{}, err
	}
	for _, o := range objects {
		p.Objects++
		p.Bytes += o.Size
		if !o.Retired {
			continue
		}
		// Such an object keeps a few lines: of records in quarantine, not in silver.
		var gone int64
		err := j.session.Row(ctx, fmt.Sprintf("SELECT count(*) FROM work.lineage WHERE file >= 0 AND _partition_id = %d AND _partition_offset < %d", o.Partition, o.End), &gone)
		if err != nil {
			return Plan{}, err
		}
		p.Retired += gone
	}
	return p, j.reach("planned")
}

// A scan reads so much of silver at a time: what the local cache surely holds.
const (
	scanBytes = 256 << 20
	scanFiles = 500
)

// scan looks for rows in scope in files of silver that it has not looked at yet.
func (j *Job) scan(ctx context.Context, files []table.File) error {
	var batch []table.File
	var bytes int64
	flush := func() error {
		err := j.scanFiles(ctx, batch)
		batch, bytes = nil, 0
		return err
	}
	for _, f := range newestFirst(files, j.Pipeline.Events.Time) {
		if j.seen[f.Key] || j.scope.Most > 0 && j.found >= j.scope.Most {
			continue
		}
		j.seen[f.Key] = true
		may, err := j.chosen.may(ctx, f)
		if err != nil {
			return err
		}
		if !may {
			continue
		}
		batch, bytes = append(batch, f), bytes+f.Bytes
		if bytes >= scanBytes || len(batch) == scanFiles || j.scope.Most > 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func (j *Job) scanFiles(ctx context.Context, files []table.File) error {
	if len(files) == 0 {
		return nil
	}
	paths, release, err := j.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	at, key := duck.Quote(j.Pipeline.Events.Time), "NULL"
	if j.chosen.keyColumn != "" {
		key = duck.Quote(j.chosen.keyColumn)
	}
	chosen := fmt.Sprintf("FROM %s AS s WHERE %s", duck.ReadParquetFiles(j.columns, paths), j.chosen.condition)
	err = j.session.Exec(ctx, fmt.Sprintf("CREATE OR REPLACE TABLE work.found AS SELECT __file + %d AS file, _partition_id, _partition_offset, %s AS happened, (%s)::VARCHAR AS key %s", len(j.files), at, key, chosen))
	if err != nil {
		return fmt.Errorf("rows in scope: %w", j.userError(err))
	}
	j.files = append(j.files, files...)
	var n int64
	if err := j.session.Row(ctx, "SELECT count(*) FROM work.found", &n); err != nil {
		return err
	}
	j.found += n
	return j.session.Exec(ctx,
		"INSERT INTO work.lineage SELECT file, _partition_id, _partition_offset, happened FROM work.found",
		"INSERT INTO work.keys SELECT DISTINCT key FROM work.found WHERE key IS NOT NULL",
		"DROP TABLE work.found")
}

// userError marks an error of the user's condition as such: one that binds may
// still fail on a row.
func (j *Job) userError(err error) error {
	var refused *duck.Error
	if j.scope.Where == "" || !duck.Malformed(err) || !errors.As(err, &refused) {
		return err
	}
	what, _, _ := strings.Cut(refused.Message(), "\n") // the rest shows a generated statement
	return scopeError{fmt.Errorf("--where %s: %s", j.scope.where(), what)}
}

// scanQuarantine looks for records in scope in files of quarantine that it has
// not looked at yet.
func (j *Job) scanQuarantine(ctx context.Context) error {
	if !j.scope.Quarantined {
		return nil
	}
	condition := "true"
	if j.scope.Reason != "" {
		condition = "reason = " + duck.Literal(j.scope.Reason)
	}
	fresh, err := j.freshQuarantine(ctx)
	if err != nil {
		return err
	}
	return j.readQuarantine(ctx, fresh, condition)
}

// freshQuarantine are the files of quarantine that were not looked at yet.
func (j *Job) freshQuarantine(ctx context.Context) (fresh []table.File, err error) {
	files, err := j.quarantineFiles(ctx)
	for _, f := range files {
		if !j.seen[f.Key] {
			j.seen[f.Key], j.quarantined[f.Key] = true, true
			fresh = append(fresh, f)
		}
	}
	return fresh, err
}

// quarantineFiles are the files of quarantine, as it was loaded with silver.
func (j *Job) quarantineFiles(ctx context.Context) ([]table.File, error) {
	current, ok := j.pair.Quarantine.Current()
	if !ok {
		return nil, nil
	}
	return j.pair.Quarantine.Files(ctx, current.ID)
}

// readQuarantine puts records of quarantine's files that meet a condition into
// work.lineage and work.quarantined, unless they are there.
func (j *Job) readQuarantine(ctx context.Context, files []table.File, condition string) error {
	if len(files) == 0 {
		return nil
	}
	paths, release, err := j.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	return j.session.Exec(ctx,
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.found AS SELECT _partition_id, _partition_offset, reason, field, detail FROM %s AS q
			WHERE (%s) AND (_partition_id, _partition_offset) NOT IN (SELECT _partition_id, _partition_offset FROM work.quarantined)`,
			duck.ReadParquet(rejectColumns, paths), condition),
		"INSERT INTO work.quarantined FROM work.found",
		"INSERT INTO work.lineage SELECT -1, _partition_id, _partition_offset, NULL FROM work.found",
		"DROP TABLE work.found")
}

// String writes the plan as one line.
func (p Plan) String() string {
	if p.Records == 0 {
		return "nothing in scope"
	}
	var parts []string
	if p.Keys > 0 {
		parts = append(parts, human.Count(p.Keys, strings.TrimSuffix(p.KeyName, "_id")))
	}
	noun := "row"
	if p.Files == 0 {
		noun = "record"
	}
	parts = append(parts, human.Count(p.Records, noun), human.Count(int64(p.Files), "file"))
	if p.Files == 0 {
		parts = parts[:len(parts)-1]
	}
	if n := p.windows(); n > 0 {
		parts = append(parts, human.Count(n, "window"))
	}
	parts = append(parts, human.Count(int64(p.Objects), "bronze object")+" ("+human.Bytes(p.Bytes)+")")
	if p.Retired > 0 {
		parts = append(parts, RetiredText(p.Retired))
	}
	return strings.Join(parts, " · ")
}

// RetiredText says that rows stay because their records were retired.
func RetiredText(rows int64) string {
	records := "their records were"
	if rows == 1 {
		records = "its record was"
	}
	return human.Count(rows, "row") + " can no longer be replayed: " + records + " retired (retain: bronze)"
}

func (p Plan) windows() (n int64) {
	for _, w := range p.Windows {
		n += w.Windows
	}
	return n
}
