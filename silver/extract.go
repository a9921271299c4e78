package silver

import (
	"context"
	"fmt"
	"strings"

	"smelt"
	"smelt/internal/duck"
)

// extractor turns bronze files into rows of the declared types, by two paths
// that give the same rows:
//
// The fast path lets DuckDB parse the whole line into a struct of leaves. It
// takes only files in which every record is a tombstone or fits. The careful
// path cuts each value out of its line and looks at it leaf by leaf; it also
// says what is wrong, with the raw value. A file in which anything looks odd is
// read again by the careful path, as a whole.
type extractor struct {
	session   *duck.Session
	name      string // of the pipeline
	events    smelt.Events
	maxLine   int
	carefully bool // take the careful path for every file
}

// The columns that both paths give beside the declared ones.
const lineage = "_partition_id INTEGER, _partition_offset BIGINT, _timestamp TIMESTAMPTZ, _key VARCHAR, _headers JSON, __file VARCHAR, __tombstone BOOLEAN"

// prepare makes the tables that extract fills, and the view bronze.<pipeline>
// over them, which is what silver.sql reads.
func (e *extractor) prepare(ctx context.Context) error {
	columns := e.declarations()
	visible := e.names() + ", _partition_id, _partition_offset, _timestamp, _key, _headers"
	return e.session.Exec(ctx,
		fmt.Sprintf("CREATE OR REPLACE TABLE work.fast (%s, %s, __odd BOOLEAN)", columns, lineage),
		fmt.Sprintf("CREATE OR REPLACE TABLE work.careful (%s, %s, __reason VARCHAR, __field VARCHAR, __raw VARCHAR, __detail VARCHAR)", columns, lineage),
		fmt.Sprintf(`CREATE OR REPLACE VIEW bronze.%s AS
			SELECT %s FROM work.fast WHERE NOT __tombstone
			UNION ALL
			SELECT %s FROM work.careful WHERE NOT __tombstone AND __reason IS NULL`, duck.Quote(e.name), visible, visible))
}

// extract fills work.fast and work.careful from local files.
func (e *extractor) extract(ctx context.Context, files []string) error {
	if err := e.session.Exec(ctx, "TRUNCATE work.fast", "TRUNCATE work.careful"); err != nil {
		return err
	}
	odd := files
	if !e.carefully {
		if err := e.fast(ctx, files); err != nil {
			return err
		}
		var err error
		if odd, err = e.session.Strings(ctx, "SELECT DISTINCT __file FROM work.fast WHERE __odd ORDER BY 1"); err != nil {
			return err
		}
		unread, err := e.unread(ctx, files)
		if err != nil {
			return err
		}
		odd = append(odd, unread...)
	}
	if len(odd) == 0 {
		return nil
	}
	err := e.session.Exec(ctx, "DELETE FROM work.fast WHERE list_contains("+duck.List(odd)+", __file)")
	if err != nil {
		return err
	}
	return e.careful(ctx, odd)
}

// fast reads files at once; when DuckDB cannot take one of them it halves the
// list until it has found which, and leaves those out.
func (e *extractor) fast(ctx context.Context, files []string) error {
	err := e.session.Exec(ctx, "INSERT INTO work.fast BY NAME "+e.fastQuery(files))
	if err == nil || !duck.Malformed(err) {
		return err
	}
	if len(files) == 1 {
		return nil
	}
	half := len(files) / 2
	if err := e.fast(ctx, files[:half]); err != nil {
		return err
	}
	return e.fast(ctx, files[half:])
}

// unread lists the files of which the fast path has no row. Bronze has no
// empty objects, so each of them is one that it could not take.
func (e *extractor) unread(ctx context.Context, files []string) ([]string, error) {
	return e.session.Strings(ctx, "SELECT unnest("+duck.List(files)+") AS f EXCEPT SELECT __file FROM work.fast ORDER BY 1")
}

func (e *extractor) careful(ctx context.Context, files []string) error {
	return e.session.Exec(ctx, "INSERT INTO work.careful BY NAME "+e.carefulQuery(files))
}

// raws puts into work.raws the raw values of the records that a table with
// their lineage names, from the files that hold them.
func (e *extractor) raws(ctx context.Context, table string) error {
	if err := e.session.Exec(ctx, "CREATE OR REPLACE TABLE work.raws (_partition_id INTEGER, _partition_offset BIGINT, raw VARCHAR)"); err != nil {
		return err
	}
	files, err := e.session.Strings(ctx, `SELECT DISTINCT __file FROM (
		SELECT __file, _partition_id, _partition_offset FROM work.fast
		UNION ALL SELECT __file, _partition_id, _partition_offset FROM work.careful)
		SEMI JOIN `+table+` USING (_partition_id, _partition_offset) ORDER BY 1`)
	if err != nil || len(files) == 0 {
		return err
	}
	return e.session.Exec(ctx, fmt.Sprintf(`INSERT INTO work.raws
		SELECT _partition_id, _partition_offset, line[instr(line, ',"value":') + 9 : -2]
		FROM (
			SELECT json_extract(json, '/partition')::INTEGER AS _partition_id, json_extract(json, '/offset')::BIGINT AS _partition_offset, json::VARCHAR AS line
			FROM read_ndjson_objects(%s, maximum_object_size = %d)
		) SEMI JOIN %s USING (_partition_id, _partition_offset)`, duck.List(files), e.maxLine, table))
}

func (e *extractor) fastQuery(files []string) string {
	fields := make([]string, len(e.events.Columns))
	leaves := make([]string, len(e.events.Columns))
	for i, c := range e.events.Columns {
		fields[i] = duck.Quote(c.Name) + " JSON"
		leaves[i] = "value." + duck.Quote(c.Name) + " AS " + leafName(i)
	}
	return fmt.Sprintf(`
		SELECT %s, _partition_id, _partition_offset, _timestamp, _key, _headers, __file, __tombstone,
			NOT __tombstone AND (__no_value OR %s OR %s) AS __odd
		FROM (
			SELECT *, %s
			FROM (
				SELECT partition AS _partition_id, "offset" AS _partition_offset, make_timestamp("timestamp" * 1000)::TIMESTAMPTZ AS _timestamp,
					coalesce("key", key_base64) AS _key, headers AS _headers, filename AS __file,
					coalesce(tombstone, false) AS __tombstone, value IS NULL AS __no_value, %s
				FROM read_json(%s, format = 'newline_delimited', filename = true, maximum_object_size = %d,
					columns = {partition: 'INTEGER', "offset": 'BIGINT', "timestamp": 'BIGINT', "key": 'VARCHAR', key_base64: 'VARCHAR',
						headers: 'JSON', tombstone: 'BOOLEAN', value: %s})
			)
		)`,
		e.outputs(), strings.Join(e.faults(), " OR "), e.outOfBounds(), strings.Join(e.values(), ", "),
		strings.Join(leaves, ", "), duck.List(files), e.maxLine, duck.Literal("STRUCT("+strings.Join(fields, ", ")+")"))
}

func (e *extractor) carefulQuery(files []string) string {
	paths := make([]string, len(e.events.Columns))
	leaves := make([]string, len(e.events.Columns))
	for i, c := range e.events.Columns {
		paths[i] = pointer(c.Name)
		leaves[i] = fmt.Sprintf("__leaves[%d] AS %s", i+1, leafName(i))
	}
	// The first `,"value":` of a line is the event's, and the event is the
	// line's last member: bronze writes lines so that its bytes can be cut out.
	return fmt.Sprintf(`
		SELECT %s, _partition_id, _partition_offset, _timestamp, _key, _headers, __file, __tombstone,
			__fault.reason AS __reason, __fault.field AS __field, __raw, __detail
		FROM (
			SELECT *, %s AS __fault
			FROM (
				SELECT *, %s
				FROM (
					SELECT *, %s
					FROM (
						SELECT *, CASE WHEN __object THEN json_extract(__body, %s) END AS __leaves
						FROM (
							SELECT *, coalesce(json_type(__body) = 'OBJECT', false) AS __object
							FROM (
								SELECT filename AS __file,
									json_extract(line, '/partition')::INTEGER AS _partition_id,
									json_extract(line, '/offset')::BIGINT AS _partition_offset,
									make_timestamp(json_extract(line, '/timestamp')::BIGINT * 1000)::TIMESTAMPTZ AS _timestamp,
									coalesce(json_extract_string(line, '/key'), json_extract_string(line, '/key_base64')) AS _key,
									json_extract(line, '/headers') AS _headers,
									coalesce(json_extract(line, '/tombstone')::BOOLEAN, false) AS __tombstone,
									json_extract(line, '/oversize') AS __oversize,
									CASE WHEN __at > 0 THEN line[__at + 9 : -2] END AS __body,
									CASE WHEN json_exists(line, '/raw_base64') THEN 'base64' ELSE __oversize::VARCHAR END AS __detail,
									coalesce(__body, json_extract_string(line, '/raw'), json_extract_string(line, '/raw_base64')) AS __raw
								FROM (
									SELECT filename, json::VARCHAR AS line, instr(json::VARCHAR, ',"value":') AS __at
									FROM read_ndjson_objects(%s, filename = true, maximum_object_size = %d)
								)
							)
						)
					)
				)
			)
		)`,
		e.outputs(), e.faultCase(), strings.Join(e.values(), ", "), strings.Join(leaves, ", "),
		duck.List(paths), duck.List(files), e.maxLine)
}

// faultCase gives the first thing that is wrong with a record, as a struct of
// reason and field, or NULL.
func (e *extractor) faultCase() string {
	fault := func(reason, field string) string {
		return fmt.Sprintf("{reason: %s, field: %s}", reason, field)
	}
	whens := []string{
		"WHEN __tombstone THEN NULL",
		"WHEN __oversize IS NOT NULL THEN " + fault(duck.Literal(ReasonTooLarge), "NULL::VARCHAR"),
		"WHEN __body IS NULL THEN " + fault(duck.Literal(ReasonNotJSON), "NULL::VARCHAR"),
		"WHEN NOT __object THEN " + fault(duck.Literal(ReasonNotObject), "NULL::VARCHAR"),
	}
	for i, condition := range e.faults() {
		c := e.events.Columns[i]
		whens = append(whens, fmt.Sprintf("WHEN %s THEN %s", condition, fault(reasonOf(c.Type, leafName(i)), duck.Literal(c.Name))))
	}
	whens = append(whens, fmt.Sprintf("WHEN %s THEN %s", e.outOfBounds(), fault(duck.Literal(ReasonTimeBounds), duck.Literal(e.events.Time))))
	return "CASE " + strings.Join(whens, " ") + " END"
}

// outOfBounds is the condition that an event's time cannot be: before 1900, or
// more than a day after the broker had the record. A replay decides alike,
// since it looks at the record and not at the clock.
func (e *extractor) outOfBounds() string {
	for i, c := range e.events.Columns {
		if c.Name == e.events.Time {
			v := valueName(i)
			return fmt.Sprintf("coalesce(%s < TIMESTAMPTZ '1900-01-01 00:00:00+00' OR %s > _timestamp + INTERVAL 24 HOURS, false)", v, v)
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

func (e *extractor) names() string {
	out := make([]string, len(e.events.Columns))
	for i, c := range e.events.Columns {
		out[i] = duck.Quote(c.Name)
	}
	return strings.Join(out, ", ")
}

func (e *extractor) declarations() string {
	out := make([]string, len(e.events.Columns))
	for i, c := range e.events.Columns {
		out[i] = duck.Quote(c.Name) + " " + c.Type.String()
	}
	return strings.Join(out, ", ")
}

// Inside the queries leaves and values have numbers for names, so that a
// declared column may have any.
func leafName(i int) string  { return fmt.Sprintf("__l%d", i) }
func valueName(i int) string { return fmt.Sprintf("__v%d", i) }
