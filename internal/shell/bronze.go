package shell

import (
	"context"
	"fmt"
	"strings"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/silver"
)

// chain is what the shell knows of a pipeline's bronze: a listing that grows.
// The view reads the objects that a variable of DuckDB lists, never a glob.
type chain struct {
	last    map[int32]string       // by partition: the key of the last object listed
	shown   map[int32]smelt.Object // by partition: the last object that the view reads
	objects int
	defined bool
}

// listPage is how many objects a request lists: the most that S3 gives.
const listPage = 1000

// refreshBronze lists the objects that are new, and makes the view at first.
func (s *Shell) refreshBronze(ctx context.Context, p *smelt.Pipeline) error {
	c := s.chains[p.Name]
	if c == nil {
		c = &chain{last: map[int32]string{}, shown: map[int32]smelt.Object{}}
		s.chains[p.Name] = c
	}
	partitions, err := bronze.NewReader(s.cfg.Store, p.Name).Partitions(ctx)
	if err != nil {
		return err
	}
	for _, partition := range partitions {
		for more := true; more; {
			if more, err = s.extend(ctx, p, c, partition); err != nil {
				return err
			}
		}
	}
	switch {
	case c.objects > 0 && !c.defined:
		c.defined = true
		return s.define(ctx, "bronze."+p.Name, s.bronzeAlias(p), bronzeBody(p, s.cfg.RecordMax))
	case c.objects == 0:
		return s.define(ctx, "bronze."+p.Name, s.bronzeAlias(p), empty(bronzeColumns(p)))
	}
	return nil
}

func (s *Shell) bronzeAlias(p *smelt.Pipeline) string {
	if p == s.main {
		return "bronze"
	}
	return ""
}

// extend lists a page of a partition's new objects. more says that there may be
// another one.
func (s *Shell) extend(ctx context.Context, p *smelt.Pipeline, c *chain, partition int32) (more bool, err error) {
	prefix := bronze.PartitionPrefix(p.Name, partition)
	objects, err := s.cfg.Store.List(ctx, prefix, c.last[partition], listPage)
	if err != nil {
		return false, smelt.Mark(smelt.ErrStore, fmt.Errorf("list %s: %w", prefix, err))
	}
	if len(objects) == 0 {
		return false, nil
	}
	if err := checkNames(objects); err != nil {
		return false, err
	}
	listed := objects
	if s.past != nil {
		if objects, err = s.writtenBy(ctx, listed, until(s.past.bronze[p.Name])); err != nil {
			return false, err
		}
	}
	if len(objects) > 0 {
		if err := s.read(ctx, p, objects); err != nil {
			return false, err
		}
		c.objects += len(objects)
		c.shown[partition] = objects[len(objects)-1]
	}
	c.last[partition] = listed[len(listed)-1].Key
	return len(listed) == listPage, nil
}

// read has the view read objects beside those that it reads already.
func (s *Shell) read(ctx context.Context, p *smelt.Pipeline, objects []smelt.Object) error {
	paths, err := s.local.paths(ctx, objects, s.cfg.Tables.Path)
	if err != nil {
		return err
	}
	v := variable(p)
	return s.console.Exec(ctx, fmt.Sprintf("SET VARIABLE %s = list_concat(getvariable('%s'), %s)", v, v, duck.List(paths)))
}

// writtenBy picks the objects that were in the lake by a time. Where a store tells
// the time of an object to the second only, the object's metadata decides.
func (s *Shell) writtenBy(ctx context.Context, listed []smelt.Object, by time.Time) (objects []smelt.Object, err error) {
	for _, o := range listed {
		written := o.Modified
		if o.Modified.Nanosecond() == 0 && o.Modified.Equal(by.Truncate(time.Second)) {
			m, err := s.stat(ctx, o)
			if err != nil {
				return nil, err
			}
			written = m.Written
		}
		if !written.After(by) {
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// stat reads an object's metadata.
func (s *Shell) stat(ctx context.Context, o smelt.Object) (bronze.Meta, error) {
	name, err := bronze.ParseName(o.Key)
	if err != nil {
		return bronze.Meta{}, smelt.Mark(smelt.ErrStore, err)
	}
	return bronze.NewReader(s.cfg.Store, name.Pipeline).Stat(ctx, bronze.Ref{Name: name, Key: o.Key, Size: o.Size})
}

// variable is the variable that lists a pipeline's objects.
func variable(p *smelt.Pipeline) string { return "_bronze_" + p.Name }

// Columns of bronze beside the declared ones.
var lineage = []smelt.Column{
	{Name: "_partition_id", Type: smelt.Type{Name: "integer"}},
	{Name: "_partition_offset", Type: smelt.Type{Name: "bigint"}},
	{Name: "_timestamp", Type: smelt.Type{Name: "timestamptz"}},
	{Name: "_key", Type: smelt.Type{Name: "varchar"}},
	{Name: "_headers", Type: smelt.Type{Name: "json"}},
	{Name: "_value", Type: smelt.Type{Name: "varchar"}},
}

func bronzeColumns(p *smelt.Pipeline) []smelt.Column {
	return append(append([]smelt.Column{}, p.Events.Columns...), lineage...)
}

// The members of a line that bronzeBody extracts ahead of the declared columns.
var members = []string{"/partition", "/offset", "/timestamp", "/key", "/key_base64", "/headers", "/raw", "/raw_base64"}

// bronzeBody is the SELECT over bronze. It shows every record: a declared column
// is NULL where the record does not have it, or has it of another type than
// silver takes. All members of a line are extracted in one go. The event's bytes are cut out of
// the line: they follow the first `,"value":` and end before its closing brace.
func bronzeBody(p *smelt.Pipeline, recordMax int) string {
	pointers := append([]string{}, members...)
	var columns []string
	for i, c := range p.Events.Columns {
		escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(c.Name)
		pointers = append(pointers, "/value/"+escaped)
		columns = append(columns, silver.Value(c.Type, fmt.Sprintf("__m[%d]", len(members)+i+1))+" AS "+duck.Quote(c.Name))
	}
	return fmt.Sprintf(`SELECT %s,
	__m[1]::INTEGER AS _partition_id,
	__m[2]::BIGINT AS _partition_offset,
	make_timestamp(__m[3]::BIGINT * 1000)::TIMESTAMPTZ AS _timestamp,
	coalesce(__m[4]->>'$', __m[5]->>'$') AS _key,
	__m[6] AS _headers,
	CASE WHEN instr(__line, ',"value":') > 0 THEN __line[instr(__line, ',"value":') + 9 : -2] ELSE coalesce(__m[7]->>'$', __m[8]->>'$') END AS _value
FROM (
	SELECT json::VARCHAR AS __line, json_extract(json, %s) AS __m
	FROM read_ndjson_objects(getvariable('%s'), maximum_object_size = %d)
)`, strings.Join(columns, ", "), duck.List(pointers), variable(p), bronze.MaxLine(recordMax))
}
