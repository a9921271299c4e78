// Package sqlcheck has what the checks of silver.sql and of the gold models share. It parses and binds a file's SELECT,
// and reports each fault with its place.
package sqlcheck

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
)

// Result is what a check has found.
type Result struct {
	Columns []smelt.Column // of the SELECT's result; nil when it could not be bound
	Skipped []string       // what could not be checked, and why
	Faults  smelt.Faults
}

// Unknown is the type of a column whose type is not known.
const Unknown = "null"

// File is a SELECT that is being checked.
type File struct {
	Result
	Pipeline  *smelt.Pipeline
	Statement *duck.Statement // nil if it is not a SELECT
	Functions duck.Functions

	session *duck.Session
	name    string // of the file, with the pipeline's folder
	text    string
}

// Open parses the SELECT of a pipeline's file.
func Open(ctx context.Context, session *duck.Session, p *smelt.Pipeline, name, text string) (*File, error) {
	f := &File{Pipeline: p, session: session, name: path.Join(p.Dir, name), text: text}
	var err error
	if f.Functions, err = session.Functions(ctx); err != nil {
		return nil, err
	}
	f.Statement, err = session.Parse(ctx, text)
	if syntax, ok := duck.IsSyntax(err); ok {
		f.Fault(syntax.Position, "%s", syntax.Message)
		return f, nil
	}
	return f, err
}

// Fault notes what is wrong at a byte offset of the text, or with all of it.
func (f *File) Fault(offset int, format string, args ...any) {
	fault := smelt.Fault{File: f.name, Message: fmt.Sprintf(format, args...)}
	if offset >= 0 {
		fault.Line, fault.Col = duck.Position(f.text, offset)
	}
	f.Faults = append(f.Faults, fault)
}

// Declaration notes what is wrong in pipeline.yml, at the place of a key.
func (f *File) Declaration(message string, keys ...string) {
	f.Faults = append(f.Faults, f.Pipeline.Fault(message, keys...))
}

// Reads checks that the SELECT reads only the tables allowed, and no functions,
// files or values in their place. Otherwise it must not be bound: that alone
// would read a file.
func (f *File) Reads(allowed ...string) bool {
	before := len(f.Faults)
	for _, t := range f.Statement.Tables {
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, t.Text) }) {
			f.Fault(t.Position, "%s cannot be read here%s", t.Text, smelt.DidYouMean(t.Text, allowed...))
		}
	}
	for _, s := range f.Statement.Sources {
		f.Fault(s.Position, "%s: only %s can be read here", s.Text, strings.Join(allowed, ", "))
	}
	return len(f.Faults) == before
}

// Refuse notes each use of the features, with why they cannot be used.
func (f *File) Refuse(reasons map[string]string) {
	for _, feature := range f.Statement.Features {
		if why, refused := reasons[feature.Text]; refused {
			f.Fault(feature.Position, "%s: %s", feature.Text, why)
		}
	}
}

// Steady checks that the SELECT gives the same at each run. columns are those
// that hide a function which is called without parentheses.
func (f *File) Steady(columns ...string) {
	for _, name := range Unsteady(f.Statement, f.Functions, columns) {
		f.Fault(name.Position, "%s gives another value at each run: use what the record has, such as its event time", name.Text)
	}
}

// Unsteady lists the functions of a statement that may give another value at
// each run.
func Unsteady(s *duck.Statement, functions duck.Functions, columns []string) []duck.Name {
	var found []duck.Name
	for _, fn := range s.Functions {
		if functions.Volatile[fn.Text] || fn.Text == "age" && fn.Children == 1 { // age(t) counts from today
			found = append(found, fn)
		}
	}
	for _, c := range s.Columns {
		if len(c.Path) == 1 && slices.ContainsFunc(duck.ValueFunctions, func(v string) bool { return strings.EqualFold(v, c.Text) }) &&
			!slices.ContainsFunc(columns, func(d string) bool { return strings.EqualFold(d, c.Text) }) {
			found = append(found, c)
		}
	}
	return found
}

// RowWise checks that no function makes one row of several, or several of one.
func (f *File) RowWise() {
	for _, fn := range f.Statement.Functions {
		switch {
		case f.Functions.Aggregate[fn.Text]:
			f.Fault(fn.Position, "%s makes one row of several: each record must give its own row", fn.Text)
		case f.Functions.Unnest[fn.Text]:
			f.Fault(fn.Position, "%s makes several rows of one: each record must give one row", fn.Text)
		}
	}
}

// Bind binds the SELECT and checks that a table can keep its result, to which
// smelt adds columns of its own.
func (f *File) Bind(ctx context.Context, known []string, mine ...string) (bound bool, err error) {
	if slices.ContainsFunc(f.Statement.Features, func(n duck.Name) bool { return n.Text == duck.FeatureParameter }) {
		return false, nil
	}
	columns, faults, err := f.session.Bind(ctx, f.text, f.Statement)
	if err != nil {
		return false, err
	}
	for _, b := range faults {
		message := b.Message
		if b.Column != "" {
			message = fmt.Sprintf("there is no column %q%s", b.Column, smelt.DidYouMean(b.Column, known...))
		}
		f.Fault(b.Position, "%s", message)
	}
	if len(faults) > 0 {
		return false, nil
	}
	before := len(f.Faults)
	seen := map[string]bool{}
	for _, c := range columns {
		column, fault := c.ResultColumn()
		folded := strings.ToLower(c.Name)
		switch {
		case seen[folded]:
			f.Fault(f.Place(c.Name), "two columns of the result have the name %q, in which case does not count", c.Name)
		case strings.HasPrefix(c.Name, "_") && !slices.Contains(mine, c.Name):
			f.Fault(f.Place(c.Name), "column %q: names that begin with _ are smelt's own: give it another with AS", c.Name)
		case c.Name == "":
			f.Fault(-1, "a column of the result has no name: give it one with AS")
		case fault != "":
			f.Fault(f.Place(c.Name), "%s", fault)
		}
		seen[folded] = true
		f.Columns = append(f.Columns, column)
	}
	return len(f.Faults) == before, nil
}

// Place gives where the last column of a name stands in the outermost SELECT,
// or the star that may give it.
func (f *File) Place(name string) int {
	at := -1
	for _, o := range f.Statement.Outputs {
		if strings.EqualFold(o.Text, name) || o.Text == "*" && at < 0 {
			at = o.Position
		}
	}
	return at
}

// Column looks for a column of the result by its exact name.
func (r *Result) Column(name string) (smelt.Column, bool) {
	i := slices.IndexFunc(r.Columns, func(c smelt.Column) bool { return c.Name == name })
	if i < 0 {
		return smelt.Column{}, false
	}
	return r.Columns[i], true
}

// TextKeys returns the columns of a reference that are text whatever their values look like: its key, if the events' column is
// text.
func TextKeys(p *smelt.Pipeline, r smelt.Reference) []string {
	for _, c := range p.Events.Columns {
		if c.Name == r.On && c.Type.Name == "varchar" {
			return []string{r.Key}
		}
	}
	return nil
}

// Names lists the names of columns.
func Names(columns []smelt.Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name
	}
	return out
}

// Show makes an empty view that has the columns.
func Show(ctx context.Context, session *duck.Session, view string, columns []smelt.Column) error {
	typed := make([]string, len(columns))
	for i, c := range columns {
		typed[i] = "NULL"
		if c.Type.Name != Unknown {
			typed[i] += "::" + c.Type.String()
		}
		typed[i] += " AS " + duck.Quote(c.Name)
	}
	return session.Exec(ctx, "CREATE OR REPLACE VIEW "+view+" AS SELECT "+strings.Join(typed, ", ")+" WHERE false")
}
