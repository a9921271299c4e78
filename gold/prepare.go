package gold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Prepare binds the model to silver's columns and makes the table when there is
// none, so that what is wrong with the model shows before anything runs. A table
// that is there is brought to the model's columns. The silver table must be there.
func (s *Stage) Prepare(ctx context.Context) error {
	t, err := s.Area.Lake.Load(ctx, "silver."+s.Pipeline.Name)
	if err != nil {
		return err
	}
	columns, err := s.bind(ctx, t)
	if err != nil {
		return err
	}
	g, err := s.Area.Lake.Create(ctx, s.Name(), s.definition(columns))
	if err != nil {
		return err
	}
	if err := s.keepsFrozen(t, g); err != nil {
		return err
	}
	_, err = s.Area.Lake.Evolve(ctx, s.Name(), s.definition(columns))
	return staging.Refused(s.Name(), err)
}

// keepsFrozen refuses another column for the start of a window while there are
// frozen windows, which have it in the column of before.
func (s *Stage) keepsFrozen(silver, gold *table.Table) error {
	source, _, _, err := ledger.Read[ledger.Silver](silver)
	if err != nil {
		return err
	}
	before, _, _, err := ledger.Read[ledger.Gold](gold)
	if err != nil {
		return err
	}
	has := slices.ContainsFunc(gold.Columns(), func(c smelt.Column) bool { return strings.EqualFold(c.Name, s.Model.Column) })
	if floor := Floor(s.Model.Window, source, before); !has && !floor.IsZero() {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s has frozen windows from before %s. They lack the column %s, which pipeline.yml now names as the window's start. Use the former name, or drop the table; it is then computed from the rows that silver still has:\n  ./bin/smelt drop %[1]s",
			s.Name(), floor.Format(time.DateTime), s.Model.Column))
	}
	return nil
}

// open binds the model to silver's columns, and makes the gold table when there
// is none.
func (s *Stage) open(ctx context.Context, j *job) error {
	columns, err := s.bind(ctx, j.silver)
	if err != nil {
		return err
	}
	if j.gold == nil {
		if j.gold, err = s.Area.Lake.Create(ctx, s.Name(), s.definition(columns)); err != nil {
			return err
		}
	}
	if j.future, err = staging.Future(j.gold, columns); err != nil {
		return err
	}
	j.columns = staging.Fitted(j.future, columns)
	return nil
}

// bind binds the model to the columns of silver, and gives those of its table. It
// does so again only when silver's columns have changed.
func (s *Stage) bind(ctx context.Context, silver *table.Table) ([]smelt.Column, error) {
	have := duck.Declarations(silver.Columns())
	if s.bound.gives != nil && s.bound.silver == have {
		return s.bound.gives, nil
	}
	s.bound = bound{}
	if err := s.show(ctx, silver.Columns(), nil, "false"); err != nil {
		return nil, err
	}
	columns, err := Columns(ctx, s.session, s.Model)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/%s.sql: %w", s.Pipeline.Name, s.Model.Name, err))
	}
	s.bound = bound{have, columns}
	return columns, nil
}

// definition is what the model says of the table.
func (s *Stage) definition(columns []smelt.Column) table.Definition {
	return table.Definition{Columns: columns, Partition: []smelt.PartitionField{{Transform: "day", Column: s.Model.Column}}}
}

// Columns of every gold table beside those of its model.
const (
	colRevision   = "_revision"
	colComputedAt = "_computed_at"
)

var ownColumns = []smelt.Column{
	{Name: colRevision, Type: smelt.Type{Name: "bigint"}},
	{Name: colComputedAt, Type: smelt.Type{Name: "timestamptz"}},
}

// Columns binds a model to the silver.<pipeline> that the session shows, and
// gives the columns of its gold table.
func Columns(ctx context.Context, session *duck.Session, m smelt.Model) ([]smelt.Column, error) {
	if err := session.Exec(ctx, "CREATE OR REPLACE VIEW work.model AS "+m.SQL); err != nil {
		return nil, err
	}
	described, err := session.Describe(ctx, "FROM work.model")
	if err != nil {
		return nil, err
	}
	var out []smelt.Column
	window := false
	for _, c := range described {
		typ, ok := duck.Storable(c.Type)
		if !ok {
			return nil, fmt.Errorf("column %s is a %s, which a table cannot keep: cast it", c.Name, c.Type)
		}
		if c.Name == m.Column {
			window = true
			if typ.Name != "timestamptz" && typ.Name != "timestamp" && typ.Name != "date" {
				return nil, fmt.Errorf("the window's column %s is a %s: it must be a time", c.Name, c.Type)
			}
		}
		out = append(out, smelt.Column{Name: c.Name, Type: typ})
	}
	if !window {
		return nil, fmt.Errorf("the result has no column %s, which pipeline.yml names as the window's start", m.Column)
	}
	return append(out, ownColumns...), nil
}
