package crash_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/upkeep"
)

// state is what a lake says, whichever files it is in: rows and records as text, by
// table, and what the ledgers have counted.
type state map[string][]string

// differs returns the first difference, or "".
func (s state) differs(want state) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		got := s[name]
		for i, line := range want[name] {
			if i >= len(got) || got[i] != line {
				return fmt.Sprintf("%s is\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want[name], "\n\t"))
			}
		}
		if len(got) > len(want[name]) {
			return fmt.Sprintf("%s is\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want[name], "\n\t"))
		}
	}
	return ""
}

// checker examines a world.
type checker struct {
	*process
	session *duck.Session
}

func (w *world) checker(ctx context.Context) (*checker, error) {
	p, err := w.process("checker")
	if err != nil {
		return nil, err
	}
	session, err := w.duck.Session(ctx)
	return &checker{p, session}, err
}

func (c *checker) Close() error { return c.session.Close() }

// state reads all layers.
func (c *checker) state(ctx context.Context) (state, error) {
	s := state{}
	var err error
	if s["bronze.readings"], err = c.bronze(ctx); err != nil {
		return nil, err
	}
	for name, stamps := range map[string]string{
		silverName: "_ingested_at, _rebuilt_at", quarantineName: "quarantined_at", goldName: "_computed_at",
	} {
		if s[name], err = c.rows(ctx, name, stamps); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	t, err := c.parts.Area.Lake.Load(ctx, silverName)
	if errors.Is(err, smelt.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	l, _, _, err := ledger.Read[ledger.Silver](t)
	l.Quarantine, l.Retained = "", time.Time{}
	s["ledger of "+silverName] = []string{fmt.Sprintf("%+v", l)}
	return s, err
}

// bronze reads the records of every chain, and checks that it has no break.
func (c *checker) bronze(ctx context.Context) (lines []string, err error) {
	reader := bronze.NewReader(c.objects, c.pipeline.Name)
	for id := range int32(partitions) {
		for position := int64(-1); ; {
			refs, err := reader.After(ctx, id, position, math.MaxInt64)
			if err != nil {
				return nil, err
			}
			if len(refs) == 0 {
				break
			}
			for _, ref := range refs {
				m, err := reader.Lines(ctx, ref, func(line []byte) error {
					lines = append(lines, string(line))
					return nil
				})
				if err != nil {
					return nil, err
				}
				position = m.End
			}
		}
	}
	return lines, nil
}

// rows reads the rows of a table, sorted, without columns that say when.
func (c *checker) rows(ctx context.Context, name, stamps string) ([]string, error) {
	t, err := c.parts.Area.Lake.Load(ctx, name)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	current, ok := t.Current()
	if !ok {
		return nil, nil
	}
	files, err := t.Files(ctx, current.ID)
	if err != nil {
		return nil, err
	}
	paths, release, err := c.parts.Area.Fetch(ctx, files)
	if err != nil {
		return nil, err
	}
	defer release()
	return c.session.Strings(ctx, fmt.Sprintf("SELECT r::VARCHAR FROM (SELECT * EXCLUDE (%s) FROM %s) AS r ORDER BY 1", stamps, duck.ReadParquet(t.Columns(), paths)))
}

// checked looks at the world.
func (w *world) checked(ctx context.Context, look func(*checker) error) error {
	return with(func() (*checker, error) { return w.checker(ctx) }, look)
}

// is checks that the lake says what it should.
func (c *checker) is(ctx context.Context, want state) error {
	got, err := c.state(ctx)
	if err != nil {
		return err
	}
	if diff := got.differs(want); diff != "" {
		return errors.New(diff)
	}
	return nil
}

// clean checks that no object is missing, and that none is left over after the search for orphans.
func (c *checker) clean(ctx context.Context) error {
	if err := c.whole(ctx); err != nil {
		return err
	}
	return c.swept(ctx)
}

// verify recounts the lake.
func (c *checker) verify(ctx context.Context) error {
	v, err := inspect.Verifier{Area: c.parts.Area, Duck: c.duck, RecordMax: bronze.DefaultRecordMax}.Verify(ctx, c.pipeline)
	if err != nil {
		return err
	}
	if err := v.Err(); err != nil {
		return fmt.Errorf("%w: %+v", err, v.Mismatches)
	}
	return nil
}

// whole checks that each object is there which a table has.
func (c *checker) whole(ctx context.Context) error {
	names, err := c.parts.Area.Lake.List(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		has, err := c.has(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for key := range has {
			if _, err := c.objects.Stat(ctx, key); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// has are the keys of all objects that a table has.
func (c *checker) has(ctx context.Context, name string) (map[string]bool, error) {
	t, err := c.parts.Area.Lake.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.Objects(ctx)
}

// swept lets days pass, deletes orphans, and checks that nothing else is left.
func (c *checker) swept(ctx context.Context) error {
	time.Sleep(4 * 24 * time.Hour)
	w := c.world
	for _, task := range []struct{ kind, name string }{
		{upkeep.KindOrphans, silverName}, {upkeep.KindOrphans, quarantineName}, {upkeep.KindOrphans, goldName},
		{upkeep.KindClean, "bronze.readings"},
	} {
		if err := w.undisturbed(maintains(task.kind, task.name)); err != nil {
			return err
		}
	}
	names, err := c.parts.Area.Lake.List(ctx)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, name := range names {
		has, err := c.has(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		maps.Copy(kept, has)
	}
	for id := range int32(partitions) {
		refs, err := bronze.NewReader(c.objects, c.pipeline.Name).Cover(ctx, id)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			kept[ref.Key] = true
		}
	}
	const all = 1 << 20
	objects, err := c.objects.List(ctx, "", "", all)
	for _, o := range objects {
		if !kept[o.Key] {
			return fmt.Errorf("nobody has %s, and yet it stays", o.Key)
		}
	}
	return err
}
