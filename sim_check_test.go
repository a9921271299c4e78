package smelt_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"smelt"
	"smelt/bronze"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/silver"
)

// checker examines the lake directly, and compares it with what was produced.
type checker struct {
	w       *world
	ctx     context.Context
	lake    *table.Lake
	area    staging.Area
	reader  *bronze.Reader
	session *duck.Session

	// This is what the last check saw. None of it ever goes back.
	position  map[int32]int64
	revisions map[string]int64
	computed  map[string]ledger.Gold
}

func newChecker(ctx context.Context, w *world) (*checker, error) {
	cache, err := store.NewCache(w.objects, filepath.Join(w.dir, "check"), 1<<30)
	if err != nil {
		return nil, err
	}
	session, err := w.duck.Session(ctx)
	if err != nil {
		return nil, err
	}
	lake := table.Open(w.objects, w.catalog, simRoot)
	return &checker{
		w: w, ctx: ctx, lake: lake, session: session,
		area:      staging.Area{Store: w.objects, Lake: lake, Cache: cache},
		reader:    bronze.NewReader(w.objects, w.load.pipeline.Name),
		position:  map[int32]int64{},
		revisions: map[string]int64{},
		computed:  map[string]ledger.Gold{},
	}, nil
}

func (c *checker) close() error { return c.session.Close() }

// lineage is a record's place.
type lineage struct {
	partition int32
	offset    int64
}

// all checks what holds at any moment.
func (c *checker) all() error {
	ends, err := c.bronze()
	if err != nil {
		return fmt.Errorf("bronze: %w", err)
	}
	if err := c.silver(ends); err != nil {
		return fmt.Errorf("silver: %w", err)
	}
	for _, m := range c.w.load.pipeline.Gold {
		if err := c.gold(m, false); err != nil {
			return fmt.Errorf("gold %s: %w", m.Name, err)
		}
	}
	return c.kept()
}

// complete checks that everything has arrived.
func (c *checker) complete() error {
	if err := c.all(); err != nil {
		return err
	}
	ends, err := c.bronze()
	if err != nil {
		return err
	}
	for p, sent := range c.w.sent {
		if n := len(sent); n > 0 && (c.position[int32(p)] != ends[int32(p)] || ends[int32(p)] <= sent[n-1].Offset) {
			return fmt.Errorf("silver is at %d of partition %d, whose last record is %d; bronze ends at %d", c.position[int32(p)], p, sent[n-1].Offset, ends[int32(p)])
		}
	}
	for _, m := range c.w.load.pipeline.Gold {
		if err := c.gold(m, true); err != nil {
			return fmt.Errorf("gold %s: %w", m.Name, err)
		}
	}
	return nil
}

// bronze checks that every partition's chain is whole, and holds the log's
// records up to its end, as received.
func (c *checker) bronze() (ends map[int32]int64, err error) {
	ends = map[int32]int64{}
	for p := range int32(simPartitions) {
		sent, n := c.w.sent[p], 0
		var last bronze.Meta
		refs, err := c.chain(p)
		if err != nil {
			return nil, err
		}
		for _, ref := range refs {
			if ref.From != ends[p] {
				return nil, fmt.Errorf("%s does not begin where the one before it ended, at %d", ref.Key, ends[p])
			}
			meta, err := c.reader.Lines(c.ctx, ref, func(line []byte) error {
				got, err := bronze.Decode(line)
				if err != nil {
					return err
				}
				if n == len(sent) || !sameRecord(got.Record, sent[n].Record) {
					return fmt.Errorf("%s holds %s, which is not record %d of partition %d", ref.Key, line, n, p)
				}
				n++
				return nil
			})
			if err != nil {
				return nil, err
			}
			last = meta
			if ends[p] = meta.End; meta.Chain.Count != int64(n) {
				return nil, fmt.Errorf("%s counts %d records of the chain, which has %d", ref.Key, meta.Chain.Count, n)
			}
		}
		if n > 0 && last.Seam == "" && ends[p] != sent[n-1].Offset+1 {
			return nil, fmt.Errorf("partition %d ends at %d, after offset %d", p, ends[p], sent[n-1].Offset)
		}
	}
	return ends, nil
}

// chain lists a partition's objects.
func (c *checker) chain(partition int32) ([]bronze.Ref, error) {
	var all []bronze.Ref
	for position := int64(-1); ; {
		refs, err := c.reader.After(c.ctx, partition, position, math.MaxInt64)
		if err != nil || len(refs) == 0 {
			return all, err
		}
		last, err := c.reader.Stat(c.ctx, refs[len(refs)-1])
		if err != nil {
			return nil, err
		}
		all, position = append(all, refs...), last.End
	}
}

// row is a row of silver, or a reject.
type row struct {
	lineage
	cells []string
}

// silver checks that each record up to silver's position is where it belongs, once.
func (c *checker) silver(ends map[int32]int64) error {
	pair, err := silver.LoadPair(c.ctx, c.lake, c.w.load.pipeline.Name)
	if err != nil || pair.Silver == nil {
		return err
	}
	if err := c.forward(pair.Ledger.Position, ends); err != nil {
		return err
	}
	if parted, err := pair.Parted(); err != nil || parted {
		if parted && !c.w.rollbacks {
			return errors.New("silver and quarantine are not of one commit")
		}
		return err
	}
	rows, err := c.silverRows(pair.Silver)
	if err != nil {
		return err
	}
	rejects, err := c.rejects(pair.Quarantine)
	if err != nil {
		return err
	}
	if err := c.counts(pair.Ledger, len(rows), rejects); err != nil {
		return err
	}
	return c.placed(pair.Ledger.Position, rows, rejects)
}

// forward checks that a position does not go back, or beyond bronze.
func (c *checker) forward(position, ends map[int32]int64) error {
	for p, was := range c.position {
		if position[p] < was && !c.w.rollbacks {
			return fmt.Errorf("the position of partition %d went from %d back to %d", p, was, position[p])
		}
	}
	for p, at := range position {
		if at > ends[p] {
			return fmt.Errorf("the position of partition %d is %d, but bronze ends at %d", p, at, ends[p])
		}
	}
	c.position = position
	return nil
}

// counts checks the ledger's own counts.
func (c *checker) counts(l ledger.Silver, rows int, rejects []row) error {
	reasons := map[string]int64{}
	for _, r := range rejects {
		reasons[r.cells[0]]++
	}
	for reason, n := range l.Quarantined {
		if n == reasons[reason] {
			delete(reasons, reason)
		}
	}
	if l.Rows() != int64(rows) || len(reasons) > 0 {
		return fmt.Errorf("the ledger counts %d rows and %v rejects; there are %d and %d, of which %v otherwise", l.Rows(), l.Quarantined, rows, len(rejects), reasons)
	}
	return nil
}

func (c *checker) silverRows(t *table.Table) ([]row, error) {
	load := c.w.load
	columns := []string{load.id, "epoch_us(" + load.at + ")", load.number, "_reference_version", "_unmatched"}
	if load.enriched {
		columns = append(columns, "city", "country")
	}
	current, ok := t.Current()
	if !ok {
		return nil, nil
	}
	return c.rows(t, current.ID, columns...)
}

// rejects are the rows of quarantine, which may not be there yet.
func (c *checker) rejects(q *table.Table) ([]row, error) {
	if q == nil {
		return nil, nil
	}
	current, ok := q.Current()
	if !ok {
		return nil, nil
	}
	return c.rows(q, current.ID, "reason", "field", "detail")
}

// placed checks each record up to the position against where it is.
func (c *checker) placed(position map[int32]int64, rows, rejects []row) error {
	kept, rejected := map[lineage]row{}, map[lineage]row{}
	for _, r := range rows {
		if _, twice := kept[r.lineage]; twice {
			return fmt.Errorf("record %v is in silver twice", r.lineage)
		}
		kept[r.lineage] = r
	}
	for _, r := range rejects {
		if _, twice := rejected[r.lineage]; twice {
			return fmt.Errorf("record %v is in quarantine twice", r.lineage)
		}
		rejected[r.lineage] = r
	}
	survivors := map[string]lineage{}
	uniques := map[string]lineage{}
	for p, sent := range c.w.sent {
		for _, m := range sent {
			at := lineage{int32(p), m.Offset}
			if m.Offset >= position[int32(p)] {
				break
			}
			k, isKept := kept[at]
			r, isRejected := rejected[at]
			delete(kept, at)
			delete(rejected, at)
			if err := c.record(m, k, isKept, r, isRejected); err != nil {
				return fmt.Errorf("record %v %q: %w", at, m.Value, err)
			}
			if m.unique == "" {
				continue
			}
			uniques[m.unique] = at
			if other, ok := survivors[m.unique]; ok && isKept {
				return fmt.Errorf("%s is in silver as %v and as %v", m.unique, other, at)
			}
			if isKept {
				survivors[m.unique] = at
			}
		}
	}
	if len(kept)+len(rejected) > 0 {
		return fmt.Errorf("beyond the position, or never produced: in silver %v, in quarantine %v", kept, rejected)
	}
	for unique, at := range uniques {
		if _, ok := survivors[unique]; !ok && !c.w.load.moody {
			return fmt.Errorf("no record of %s (%v) is in silver", unique, at)
		}
	}
	return c.twins(rejects, survivors)
}

// twins checks that each duplicate names the survivor.
func (c *checker) twins(rejects []row, survivors map[string]lineage) error {
	for _, r := range rejects {
		if r.cells[0] != "duplicate" {
			continue
		}
		i, _ := slices.BinarySearchFunc(c.w.sent[r.partition], r.offset, func(m made, offset int64) int { return int(m.Offset - offset) })
		m := c.w.sent[r.partition][i]
		twin := survivors[m.unique]
		if want := fmt.Sprintf("%d:%d", twin.partition, twin.offset); r.cells[2] != want {
			return fmt.Errorf("the duplicate %v of %s names %s as its twin, not %s", r.lineage, m.unique, r.cells[2], want)
		}
	}
	return nil
}

// record checks where one record has ended, and as what.
func (c *checker) record(m made, k row, isKept bool, r row, isRejected bool) error {
	layer := inNeither
	switch {
	case isKept && isRejected:
		layer = "both"
	case isKept:
		layer = inSilver
	case isRejected:
		layer = inQuarantine
	}
	if m.unique != "" && layer == inQuarantine && r.cells[0] == "duplicate" {
		return nil
	}
	if c.w.load.moody && m.sensor != "" && layer == inQuarantine && r.cells[0] == "somewhere" && r.cells[1] == "city" {
		if m.sensor == simSensors[3] {
			return fmt.Errorf("it is nowhere, though %s has no location", m.sensor)
		}
		return nil
	}
	if layer != m.layer {
		return fmt.Errorf("it is in %s, not in %s", layer, m.layer)
	}
	switch layer {
	case inSilver:
		return c.values(m, k.cells)
	case inQuarantine:
		if m.reason != "" && r.cells[0] != m.reason || m.field != r.cells[1] {
			return fmt.Errorf("it was rejected for %q of field %q, not for %q of %q", r.cells[0], r.cells[1], m.reason, m.field)
		}
	}
	return nil
}

// values checks the columns of a silver row.
func (c *checker) values(m made, cells []string) error {
	number, _ := strconv.ParseFloat(cells[2], 64)
	switch {
	case m.id != "" && cells[0] != m.id:
		return fmt.Errorf("it has the id %q", cells[0])
	case !m.at.IsZero() && cells[1] != strconv.FormatInt(m.at.UnixMicro(), 10):
		return fmt.Errorf("it has the event time %s, not %d", cells[1], m.at.UnixMicro())
	case m.number != nil && math.Abs(number-*m.number) > 1e-9:
		return fmt.Errorf("it has the number %s, not %v", cells[2], *m.number)
	case !c.w.load.enriched:
		return nil
	}
	version, err := strconv.Atoi(cells[3])
	if err != nil || version >= len(c.w.places) {
		return fmt.Errorf("there is no reference version %q", cells[3])
	}
	city, known := c.w.places[version][m.sensor]
	want := []string{"", city, "Land of " + city}
	if m.sensor == "" { // one of the hostile cases
		city, known = c.w.places[version][cells[0]]
		want = []string{"", city, "Land of " + city}
	}
	if c.w.load.moody && city == nowhere {
		return fmt.Errorf("it is nowhere, and in silver")
	}
	if !known {
		want = []string{"locations", "", ""}
	}
	if !slices.Equal(cells[4:], want) {
		return fmt.Errorf("version %d has %q, the row %q", version, want, cells[4:])
	}
	return nil
}

// gold checks that a table equals its SQL over silver: over the silver snapshot in its ledger or, if it must be up to date, over the
// newest.
func (c *checker) gold(m smelt.Model, current bool) error {
	pipeline := c.w.load.pipeline.Name
	g, err := c.lake.Load(c.ctx, gold.TableName(pipeline, m.Name))
	if errors.Is(err, smelt.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	l, _, recorded, err := ledger.Read[ledger.Gold](g)
	if err != nil || !recorded {
		return err
	}
	if was := c.computed[m.Name]; !c.w.rollbacks && !c.w.load.moody && (l.SilverRows < was.SilverRows || l.Newest.Before(was.Newest)) {
		return fmt.Errorf("it went back: from %+v to %+v", was, l)
	}
	c.computed[m.Name] = l
	s, err := c.lake.Load(c.ctx, silver.TableName(pipeline))
	if err != nil {
		return err
	}
	head, _ := s.Current()
	if current {
		l.SilverSnapshot = head.ID
	}
	if _, there := s.Snapshot(l.SilverSnapshot); there {
		if err := c.recomputed(m, g, s, l.SilverSnapshot); err != nil {
			return err
		}
	}
	if c.w.rollbacks || c.w.load.moody { // a window that goes and comes back begins anew
		return nil
	}
	return c.revised(m, g)
}

// recomputed compares a gold table with its SQL over a silver snapshot.
func (c *checker) recomputed(m smelt.Model, g, s *table.Table, snapshot int64) error {
	from, done, err := c.relation(s, snapshot)
	if err != nil {
		return err
	}
	defer done()
	head, _ := g.Current()
	got, done, err := c.relation(g, head.ID)
	if err != nil {
		return err
	}
	defer done()
	view := "CREATE OR REPLACE VIEW silver." + duck.Quote(c.w.load.pipeline.Name) + " AS SELECT * FROM " + from
	want := "CREATE OR REPLACE VIEW work.want AS " + m.SQL
	if err := c.session.Exec(c.ctx, view, want, "CREATE OR REPLACE VIEW work.got AS SELECT * EXCLUDE (_revision, _computed_at) FROM "+got); err != nil {
		return err
	}
	diff, err := c.session.Strings(c.ctx, `
		SELECT 'missing: ' || d::VARCHAR FROM (FROM work.want EXCEPT ALL FROM work.got) AS d
		UNION ALL
		SELECT 'too many: ' || d::VARCHAR FROM (FROM work.got EXCEPT ALL FROM work.want) AS d LIMIT 10`)
	if err != nil {
		return err
	}
	if len(diff) > 0 {
		return fmt.Errorf("it is not its SQL over silver snapshot %d:\n%s", snapshot, strings.Join(diff, "\n"))
	}
	return nil
}

// revised checks that no window's revision goes down.
func (c *checker) revised(m smelt.Model, g *table.Table) error {
	head, _ := g.Current()
	from, done, err := c.relation(g, head.ID)
	if err != nil {
		return err
	}
	defer done()
	windows, err := c.session.Strings(c.ctx, fmt.Sprintf("SELECT epoch_us(%s)::VARCHAR || ' ' || max(_revision) FROM %s GROUP BY %s", duck.Quote(m.Column), from, duck.Quote(m.Column)))
	if err != nil {
		return err
	}
	for _, w := range windows {
		var start string
		var revision int64
		if _, err := fmt.Sscan(w, &start, &revision); err != nil {
			return err
		}
		if start = m.Name + " " + start; revision < c.revisions[start] {
			return fmt.Errorf("the revision of window %s went from %d to %d", start, c.revisions[start], revision)
		}
		c.revisions[start] = revision
	}
	return nil
}

// relation is SQL for the rows of a snapshot.
func (c *checker) relation(t *table.Table, snapshot int64) (from string, done func(), err error) {
	files, err := t.Files(c.ctx, snapshot)
	if err != nil {
		return "", nil, err
	}
	paths, done, err := c.area.Fetch(c.ctx, files)
	return duck.ReadParquet(t.Columns(), paths), done, err
}

func (c *checker) rows(t *table.Table, snapshot int64, columns ...string) ([]row, error) {
	files, err := t.Files(c.ctx, snapshot)
	if err != nil {
		return nil, err
	}
	return c.read(t, files, columns...)
}

// read gives columns of files, as text.
func (c *checker) read(t *table.Table, files []table.File, columns ...string) ([]row, error) {
	paths, done, err := c.area.Fetch(c.ctx, files)
	if err != nil {
		return nil, err
	}
	defer done()
	texts := make([]string, len(columns))
	for i, column := range columns {
		texts[i] = "coalesce((" + column + ")::VARCHAR, '')"
	}
	rows, err := c.session.Query(c.ctx, fmt.Sprintf("SELECT _partition_id, _partition_offset, [%s] FROM %s",
		strings.Join(texts, ", "), duck.ReadParquet(t.Columns(), paths)))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []row
	for rows.Next() {
		var r row
		var cells []any
		if err := rows.Scan(&r.partition, &r.offset, &cells); err != nil {
			return nil, err
		}
		for _, cell := range cells {
			r.cells = append(r.cells, cell.(string))
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
