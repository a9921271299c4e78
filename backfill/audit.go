package backfill

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/human"
	"smelt/internal/table"
	"smelt/silver"
)

// audit checks what was rebuilt against the pipeline's conditions. It reads the very files
// that will be published. Rebuilt rows must meet silver's expectations. The replayed rows,
// as they were and as they will be, must meet the pipeline's audits.
func (j *Job) audit(ctx context.Context) error {
	if c := j.counts(); c.Differing+c.Entered+c.Departed == 0 {
		return nil
	}
	var staged []string
	for _, p := range j.pieces {
		staged = append(staged, p.local...)
	}
	var failed []string
	for _, x := range j.Pipeline.Silver.Expect {
		var n int64
		err := j.session.Row(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE _rebuilt_at = %s AND (%s) IS NOT TRUE",
			duck.ReadParquet(j.columns, staged), duck.Timestamp(j.now), x.Condition), &n)
		if err != nil {
			return err
		}
		if n > 0 {
			failed = append(failed, fmt.Sprintf("%s do not meet the expectation %q", human.Count(n, "rebuilt row"), x.Name))
		}
	}
	if len(j.Pipeline.Silver.Audit) > 0 {
		more, err := j.auditRows(ctx, staged)
		if err != nil {
			return err
		}
		failed = append(failed, more...)
	}
	if len(failed) > 0 {
		return smelt.Mark(smelt.ErrAudit, fmt.Errorf("nothing was published: %s. The condition is in %s/pipeline.yml under silver; a narrower scope shows which rows fail it",
			strings.Join(failed, "; "), j.Pipeline.Dir))
	}
	return nil
}

// auditRows says which audits fail. The table old has the rows replayed as silver
// has them, the table new as it will. A file that compaction has merged since it
// was read shows no rows here: they were replayed again from where they are now.
func (j *Job) auditRows(ctx context.Context, staged []string) (failed []string, err error) {
	var read, stay []table.File
	for _, p := range j.pieces {
		for _, f := range p.read {
			if _, there := j.sources[f.Key]; !there {
				continue
			}
			read = append(read, f)
			if !slices.ContainsFunc(p.remove, func(r table.File) bool { return r.Key == f.Key }) {
				stay = append(stay, f)
			}
		}
	}
	old, release, err := j.Area.Fetch(ctx, read)
	if err != nil {
		return nil, err
	}
	defer release()
	kept, releaseKept, err := j.Area.Fetch(ctx, stay)
	if err != nil {
		return nil, err
	}
	defer releaseKept()
	const replayed = " WHERE (_partition_id, _partition_offset) IN (SELECT _partition_id, _partition_offset FROM work.replayed)"
	err = j.session.Exec(ctx,
		"CREATE OR REPLACE VIEW old AS SELECT * FROM "+duck.ReadParquet(j.columns, old)+replayed,
		"CREATE OR REPLACE VIEW new AS SELECT * FROM "+duck.ReadParquet(j.columns, append(kept, staged...))+replayed)
	if err != nil {
		return nil, err
	}
	for _, a := range j.Pipeline.Silver.Audit {
		var met bool
		if err := j.session.Row(ctx, silver.AuditQuery(a), &met); err != nil {
			return nil, fmt.Errorf("audit %q: %w", a.Name, err)
		}
		if !met {
			failed = append(failed, fmt.Sprintf("the audit %q is not met over %s", a.Name, human.Count(j.counts().Replayed, "replayed record")))
		}
	}
	return failed, nil
}
