package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/silver"
)

// fullListing is after how long chains are listed from their beginning again: by
// then objects may have been merged. Those that were listed stay for much longer.
const fullListing = 10 * time.Minute

// relists is how often chains are listed anew at once, since an object has gone.
const relists = 3

// chains is what the shell knows of a pipeline's bronze. The view reads the files
// that a variable of DuckDB lists, never a glob: merged objects and what they were
// merged from are there side by side for a while.
type chains struct {
	refs    map[int32][]bronze.Ref // by partition: what is to be read
	full    time.Time              // when all was listed last
	shown   []part                 // what the view reads, each partition's in order
	held    []held                 // and where
	read    []string               // the paths that the variable lists
	defined bool                   // the view reads them; else it is empty
}

// refreshBronze lists the objects that are new, and makes the view at first.
func (s *Shell) refreshBronze(ctx context.Context, p *smelt.Pipeline) error {
	c := s.chains[p.Name]
	if c == nil {
		c = &chains{refs: map[int32][]bronze.Ref{}}
		s.chains[p.Name] = c
	}
	for try := 0; ; try++ {
		err := s.listBronze(ctx, p, c)
		if err == nil {
			break
		}
		if !errors.Is(err, smelt.ErrNotFound) || try == relists {
			return err
		}
		c.full = time.Time{}
	}
	switch {
	case len(c.held) > 0 && !c.defined:
		c.defined = true
		return s.define(ctx, "bronze."+p.Name, s.bronzeAlias(p), bronzeBody(p, s.cfg.RecordMax))
	case len(c.held) == 0:
		c.defined = false
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

// listBronze has the view read what the chains hold now.
func (s *Shell) listBronze(ctx context.Context, p *smelt.Pipeline, c *chains) error {
	reader := bronze.NewReader(s.cfg.Store, p.Name)
	partitions, err := reader.Partitions(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	full := now.Sub(c.full) >= fullListing
	var shown []part
	for _, id := range partitions {
		refs, known := c.refs[id], false
		if !full {
			if refs, known, err = beyond(ctx, reader, id, refs); err != nil {
				return err
			}
		}
		if !known {
			if refs, err = reader.Cover(ctx, id); err != nil {
				return err
			}
		}
		c.refs[id] = refs
		parts, err := s.parts(ctx, p, reader, id, refs)
		if err != nil {
			return err
		}
		shown = append(shown, parts...)
	}
	if full {
		c.full = now
	}
	return s.hold(ctx, p, c, shown)
}

// beyond adds to the objects of a chain those that have come since. known is false
// when the last one was merged meanwhile, or there is none.
func beyond(ctx context.Context, reader *bronze.Reader, partition int32, refs []bronze.Ref) (all []bronze.Ref, known bool, err error) {
	if len(refs) == 0 {
		return nil, false, nil
	}
	for more := true; more; {
		last := refs[len(refs)-1]
		next, err := reader.After(ctx, partition, last.From, everything)
		if errors.Is(err, bronze.ErrBreak) || err == nil && (len(next) == 0 || next[0].Key != last.Key) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		refs = append(refs, next[1:]...)
		more = len(next) > 1 && next[len(next)-1].Followed()
	}
	return refs, true, nil
}

// everything in bytes is more than there is.
const everything = 1 << 62

// parts are what is shown of objects: all, or what was in the lake at a time.
func (s *Shell) parts(ctx context.Context, p *smelt.Pipeline, reader *bronze.Reader, partition int32, refs []bronze.Ref) ([]part, error) {
	if s.past != nil {
		return s.pastParts(ctx, p, reader, partition, refs)
	}
	parts := make([]part, len(refs))
	for i, ref := range refs {
		parts[i] = part{Ref: ref}
	}
	return parts, nil
}

// hold has the view read parts of objects: what it reads already stays where it is.
func (s *Shell) hold(ctx context.Context, p *smelt.Pipeline, c *chains, shown []part) error {
	wanted := map[partKey]bool{}
	for _, o := range shown {
		wanted[o.key()] = true
	}
	c.held = slices.DeleteFunc(c.held, func(h held) bool {
		drop := slices.ContainsFunc(h.parts, func(o part) bool { return !wanted[o.key()] })
		if drop {
			s.local.drop(h)
		}
		return drop
	})
	for _, h := range c.held {
		for _, o := range h.parts {
			delete(wanted, o.key())
		}
	}
	missing := slices.DeleteFunc(slices.Clone(shown), func(o part) bool { return !wanted[o.key()] })
	added, err := s.local.fetch(ctx, bronze.NewReader(s.cfg.Store, p.Name), missing, s.cfg.Tables.Path)
	if err != nil {
		for _, h := range added {
			s.local.drop(h)
		}
		return err
	}
	c.shown = shown
	c.held = append(c.held, added...)
	paths := make([]string, len(c.held))
	for i, h := range c.held {
		paths[i] = h.path
	}
	if slices.Equal(paths, c.read) {
		return nil
	}
	err = s.console.Exec(ctx, fmt.Sprintf("SET VARIABLE %s = %s", variable(p), duck.List(paths)))
	if err == nil {
		c.read = paths
	}
	return err
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
