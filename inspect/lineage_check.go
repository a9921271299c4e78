package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smelt/internal/human"
)

// check is one equation over the lineage, by what breaks it. In its texts {} is
// the pipeline's name.
type check struct {
	name  string
	layer string
	odd   string // the condition, over work.odd, of records that break it
	says  string // what they are: follows "3 records "
	mend  string // what to do about it
}

// In work.odd each record that is not simply right has how often it is in
// bronze (b), and there as a tombstone (t), in silver (s) and in quarantine (q).
// It is ahead when it is beyond silver's position, unread when bronze could not be
// read so far, and retired when it is where bronze has let records go.
const fillOdd = `CREATE TABLE work.odd AS
	SELECT f.*, coalesce(o >= position, false) AS ahead, coalesce(o >= checked AND o < position, false) AS unread, coalesce(o < retired, false) AS retired
	FROM (
		SELECT p, o,
			count(*) FILTER (layer IN (0, 1)) AS b, count(*) FILTER (layer = 1) AS t,
			count(*) FILTER (layer = 2) AS s, count(*) FILTER (layer = 3) AS q
		FROM work.seen GROUP BY p, o HAVING NOT (b = 1 AND t + s + q = 1)
	) AS f LEFT JOIN work.limits USING (p)`

const (
	rollBack = "Something other than smelt has changed silver.{}: roll it back to the snapshot before (its position goes back along), and the pipeline reads bronze again from there."
	takeOut  = "Something other than smelt has changed quarantine.{}: roll silver.{} back to the snapshot before; quarantine follows, and the pipeline reads bronze again from there."
	restore  = "Mend bronze first."
	follow   = "Something other than smelt has rolled back silver.{} or quarantine.{}. The pipeline's next step brings quarantine to where silver is: start it, and verify again."
	report   = "No stop or restart can do this, so it is a bug in smelt: please report it with this output."
)

var checks = []check{
	{"repeated", "bronze", "b > 1", "more than once in bronze.{}", report},
	{"lost", "silver", "b > 0 AND t = 0 AND s + q = 0", "of bronze.{} in neither silver.{} nor quarantine.{}, although silver has read past", rollBack},
	{"repeated", "silver", "s > 1", "with more than one row in silver.{}", rollBack},
	{"repeated", "quarantine", "q > 1", "with more than one row in quarantine.{}", takeOut},
	{"both", "quarantine", "s > 0 AND q > 0", "in both silver.{} and quarantine.{}", report},
	{"tombstone", "silver", "t > 0 AND s + q > 0", "without a value (tombstones), yet with a row in silver.{} or quarantine.{}", report},
	{"stray", "silver", "b = 0 AND s > 0 AND NOT ahead AND NOT unread AND NOT retired", "with a row in silver.{}, but not in bronze.{}", rollBack},
	{"stray", "quarantine", "b = 0 AND q > 0 AND NOT ahead AND NOT unread AND NOT retired", "with a row in quarantine.{}, but not in bronze.{}", takeOut},
	{"ahead", "silver", "s > 0 AND ahead", "with a row in silver.{} beyond the position that it notes, so that they will be read again", rollBack},
	{"ahead", "quarantine", "q > 0 AND ahead", "with a row in quarantine.{} beyond silver's position, so that they will be read again", takeOut},
	{"unread", "bronze", "b = 0 AND unread", "of silver.{} and quarantine.{} that could not be looked up, since bronze cannot be read so far", restore},
}

// compare finds the records that are not in exactly one place.
func (r *recounting) compare(ctx context.Context) error {
	if err := r.session.Exec(ctx, fillOdd); err != nil {
		return err
	}
	for _, c := range checks {
		if err := r.check(ctx, c); err != nil {
			return err
		}
	}
	if err := r.compareRetired(ctx); err != nil {
		return err
	}
	v := &r.verdict
	v.OK = len(v.Mismatches) == 0 && v.whole()
	return nil
}

// exampleCount is how many records a sentence names: enough to see a pattern.
const exampleCount = 3

func (r *recounting) check(ctx context.Context, c check) error {
	var n int64
	if err := r.session.Row(ctx, "SELECT count(*) FROM work.odd WHERE "+c.odd, &n); err != nil {
		return err
	}
	says, order := c.says, "p, o"
	if l := r.silverLedger; c.name == "lost" && l.Retired > 0 {
		// It is only known how many rows were retired, not of which records.
		r.verdict.Retired = min(n, l.Retired)
		n -= r.verdict.Retired
		says += fmt.Sprintf(", and retention took out %s only; perhaps", human.Count(l.Retired, "row"))
		order = "o DESC, p" // it takes the oldest
	}
	if n == 0 {
		return nil
	}
	examples, err := r.session.Strings(ctx, fmt.Sprintf(
		"SELECT coalesce(p::VARCHAR, '?') || ':' || coalesce(o::VARCHAR, '?') FROM work.odd WHERE %s ORDER BY %s LIMIT %d", c.odd, order, min(n, exampleCount)))
	if err != nil {
		return err
	}
	mend := c.mend
	switch {
	case r.parted && (c.name == "lost" || c.name == "both" || c.name == "ahead" && c.layer == "quarantine"):
		mend = follow
	case c.name == "stray" && slices.ContainsFunc(r.verdict.Mismatches, func(m Mismatch) bool { return m.Table == "bronze."+r.pipeline.Name }):
		mend = restore
	}
	r.mismatch(c.name, c.layer+"."+r.pipeline.Name, n, examples, "%s %s: %s. %s",
		human.Count(n, "record"), r.named(says), some(examples, n), r.named(mend))
	return nil
}

// named puts the pipeline's name into a text.
func (r *recounting) named(text string) string {
	return strings.ReplaceAll(text, "{}", r.pipeline.Name)
}

// some writes the examples of n things.
func some(examples []string, n int64) string {
	text := strings.Join(examples, ", ")
	if more := n - int64(len(examples)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
