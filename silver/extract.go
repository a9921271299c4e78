package silver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
)

// extractor turns bronze files into rows of the declared types, with what is
// wrong with them, by two paths that give the same rows:
//
// The fast path lets DuckDB parse whole lines into structs of leaves. It cannot
// take a file that has a value which is no object, or a field twice.
//
// The careful path takes any file that bronze has written: it cuts the leaves
// out of each line one by one, which costs a few times as much.
type extractor struct {
	session   *duck.Session
	name      string // of the pipeline
	events    smelt.Events
	carefully bool // take the careful path for every file
}

// lineage are the columns of work.records beside the declared ones.
const lineage = "_partition_id INTEGER, _partition_offset BIGINT, _timestamp TIMESTAMPTZ, _key VARCHAR, _headers JSON, " +
	"__tombstone BOOLEAN, __reason VARCHAR, __field VARCHAR, __raw VARCHAR, __detail VARCHAR"

// lineSlack is room for a line's end.
const lineSlack = 1 << 10

// prepare makes the table that extract fills, and the view bronze.<pipeline>
// over it, which is what silver.sql reads.
func (e *extractor) prepare(ctx context.Context) error {
	return e.session.Exec(ctx,
		fmt.Sprintf("CREATE OR REPLACE TABLE work.records (%s, %s)", duck.Declarations(e.events.Columns), lineage),
		fmt.Sprintf(`CREATE OR REPLACE VIEW bronze.%s AS
			SELECT %s, _partition_id, _partition_offset, _timestamp, _key, _headers
			FROM work.records WHERE NOT __tombstone AND __reason IS NULL`, duck.Quote(e.name), duck.Names(e.events.Columns)))
}

// extract fills work.records from local files, whose longest line is given:
// DuckDB takes buffers of twice that for each thread.
func (e *extractor) extract(ctx context.Context, files []string, longest int64) error {
	if err := e.session.Exec(ctx, "TRUNCATE work.records"); err != nil {
		return err
	}
	if !e.carefully {
		var err error
		if files, err = e.fast(ctx, files, longest); err != nil {
			return err
		}
	}
	if len(files) == 0 {
		return nil
	}
	return e.session.Exec(ctx, "INSERT INTO work.records BY NAME "+e.carefulQuery(files, longest))
}

// fast takes files at once; when DuckDB cannot take one of them it halves the
// list until it has found which, and returns those.
func (e *extractor) fast(ctx context.Context, files []string, longest int64) (refused []string, err error) {
	err = e.session.Exec(ctx, "INSERT INTO work.records BY NAME "+e.fastQuery(files, longest))
	switch {
	case err == nil:
		return nil, nil
	case !duck.Malformed(err):
		return nil, err
	case len(files) == 1:
		return files, nil
	}
	half := len(files) / 2
	first, err := e.fast(ctx, files[:half], longest)
	if err != nil {
		return nil, err
	}
	second, err := e.fast(ctx, files[half:], longest)
	return append(first, second...), err
}

func (e *extractor) fastQuery(files []string, longest int64) string {
	fields := make([]string, len(e.events.Columns))
	leaves := make([]string, len(e.events.Columns))
	for i, c := range e.events.Columns {
		fields[i] = duck.Quote(c.Name) + " JSON"
		leaves[i] = "value." + duck.Quote(c.Name) + " AS " + leafName(i)
	}
	lines := fmt.Sprintf(`SELECT partition AS _partition_id, "offset" AS _partition_offset,
			make_timestamptz("timestamp" * 1000) AS _timestamp,
			coalesce("key", key_base64) AS _key, headers AS _headers,
			coalesce(tombstone, false) AS __tombstone, oversize AS __oversize,
			coalesce(raw, raw_base64) AS __raw, raw_base64 IS NOT NULL AS __base64,
			value IS NOT NULL AS __object, %s
		FROM %s`,
		strings.Join(leaves, ", "), duck.ReadJSON(files, longest+lineSlack, `{
			partition: 'INTEGER', "offset": 'BIGINT', "timestamp": 'BIGINT', "key": 'VARCHAR', key_base64: 'VARCHAR',
			headers: 'JSON', tombstone: 'BOOLEAN', oversize: 'JSON', raw: 'VARCHAR', raw_base64: 'VARCHAR', value: `+
			duck.Literal("STRUCT("+strings.Join(fields, ", ")+")")+"}"))
	return e.judge(lines)
}

// envelope are the members of a line that the careful path cuts out, in the
// order of their numbers there.
var envelope = []string{"partition", "offset", "timestamp", "key", "key_base64", "headers", "tombstone", "oversize", "raw", "raw_base64"}

func (e *extractor) carefulQuery(files []string, longest int64) string {
	var paths, leaves []string
	for _, name := range envelope {
		paths = append(paths, pointer(name))
	}
	for i, c := range e.events.Columns {
		paths = append(paths, "/value"+pointer(c.Name))
		leaves = append(leaves, fmt.Sprintf("m[%d] AS %s", len(paths), leafName(i)))
	}
	// The first `,"value":` of a line is the event's: see bronze.AppendLine.
	lines := fmt.Sprintf(`SELECT m[1]::INTEGER AS _partition_id, m[2]::BIGINT AS _partition_offset,
			make_timestamptz(m[3]::BIGINT * 1000) AS _timestamp,
			coalesce(m[4]->>'$', m[5]->>'$') AS _key, m[6] AS _headers,
			m[7] IS NOT NULL AS __tombstone, m[8] AS __oversize,
			coalesce(m[9]->>'$', m[10]->>'$') AS __raw, m[10] IS NOT NULL AS __base64,
			__object, %s
		FROM (
			SELECT json_extract(line, %s) AS m, starts_with(ltrim(line[instr(line, ',"value":') + 9 :]), '{') AS __object
			FROM (SELECT json::VARCHAR AS line FROM read_ndjson_objects(%s, maximum_object_size = %d))
		)`, strings.Join(leaves, ", "), duck.List(paths), duck.List(files), longest+lineSlack)
	return e.judge(lines)
}

// judge gives the leaves of lines their types, and says what is wrong.
func (e *extractor) judge(lines string) string {
	return fmt.Sprintf(`SELECT %s, _partition_id, _partition_offset, _timestamp, _key, _headers, __tombstone,
			split_part(__fault, chr(31), 1) AS __reason, nullif(split_part(__fault, chr(31), 2), '') AS __field, __raw,
			CASE WHEN __base64 THEN 'base64' ELSE __oversize::VARCHAR END AS __detail
		FROM (SELECT *, %s AS __fault FROM (SELECT *, %s FROM (%s)))`,
		e.outputs(), e.faultCase(), strings.Join(e.values(), ", "), lines)
}

// faultCase gives the first thing that is wrong with a record, as its reason,
// a unit separator and the field at fault; or NULL. (Text costs less than a
// struct for the many records that have no fault.)
func (e *extractor) faultCase() string {
	fault := func(reason, field string) string { return reason + " || chr(31) || " + duck.Literal(field) }
	whens := []string{
		"WHEN __tombstone THEN NULL",
		"WHEN __oversize IS NOT NULL THEN " + fault(duck.Literal(ReasonTooLarge), ""),
		"WHEN __raw IS NOT NULL THEN " + fault(duck.Literal(ReasonNotJSON), ""),
		"WHEN NOT __object THEN " + fault(duck.Literal(ReasonNotObject), ""),
	}
	for i, condition := range e.faults() {
		c := e.events.Columns[i]
		whens = append(whens, fmt.Sprintf("WHEN %s THEN %s", condition, fault(reasonOf(c.Type, leafName(i)), c.Name)))
	}
	whens = append(whens, fmt.Sprintf("WHEN %s THEN %s", e.outOfBounds(), fault(duck.Literal(ReasonTimeBounds), e.events.Time)))
	return "CASE " + strings.Join(whens, " ") + " END"
}

// mostAhead is how much later than its arrival at the broker an event can be:
// clocks of sensors go wrong, but not by more than a day and not on purpose.
const mostAhead = 24 * time.Hour

// outOfBounds is the condition that an event's time cannot be: before 1900, or
// more than a day after the broker had the record. A replay decides alike,
// since it looks at the record and not at the clock.
func (e *extractor) outOfBounds() string {
	for i, c := range e.events.Columns {
		if c.Name == e.events.Time {
			v := valueName(i)
			return fmt.Sprintf("%s < TIMESTAMPTZ '1900-01-01 00:00:00+00' OR epoch_us(%s) - epoch_us(_timestamp) > %d", v, v, mostAhead.Microseconds())
		}
	}
	return "false"
}

func (e *extractor) values() []string {
	out := make([]string, len(e.events.Columns))
	for i, c := range e.events.Columns {
		out[i] = valueOf(c.Type, leafName(i), 0) + " AS " + valueName(i)
	}
	return out
}

func (e *extractor) faults() []string {
	out := make([]string, len(e.events.Columns))
	for i, c := range e.events.Columns {
		out[i] = faultOf(c, leafName(i), valueName(i))
	}
	return out
}

func (e *extractor) outputs() string {
	out := make([]string, len(e.events.Columns))
	for i, c := range e.events.Columns {
		out[i] = valueName(i) + " AS " + duck.Quote(c.Name)
	}
	return strings.Join(out, ", ")
}

// Inside the queries leaves and values have numbers for names, so that a
// declared column may have any.
func leafName(i int) string  { return fmt.Sprintf("__l%d", i) }
func valueName(i int) string { return fmt.Sprintf("__v%d", i) }
