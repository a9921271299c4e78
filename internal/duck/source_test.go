package duck_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/columns"
	"smelt/internal/duck"
)

func typ(name string) smelt.Type { return smelt.Type{Name: name} }

func list(elem smelt.Type) smelt.Type { return smelt.Type{Name: "list", Elem: &elem} }

// everyType is a column of each type that a source may have.
func everyType() []smelt.Column {
	point := smelt.Type{Name: "struct", Fields: []smelt.Column{{Name: "x", Type: typ("double")}, {Name: "tags", Type: list(typ("varchar"))}}}
	return []smelt.Column{
		{Name: "b", Type: typ("boolean")}, {Name: "t", Type: typ("tinyint")}, {Name: "s", Type: typ("smallint")},
		{Name: "i", Type: typ("integer")}, {Name: "l", Type: typ("bigint")}, {Name: "f", Type: typ("float")}, {Name: "d", Type: typ("double")},
		{Name: "d4", Type: typ("decimal(4,2)")}, {Name: "d9", Type: typ("decimal(9,2)")}, {Name: "d18", Type: typ("decimal(18,2)")}, {Name: "d38", Type: typ("decimal(38,2)")},
		{Name: "text", Type: typ("varchar")}, {Name: "day", Type: typ("date")}, {Name: "at", Type: typ("timestamptz")},
		{Name: "id", Type: typ("uuid")}, {Name: "doc", Type: typ("json")},
		{Name: "point", Type: point}, {Name: "points", Type: list(point)},
	}
}

// row sets a row of everyType by its number.
func row(b *columns.Batch) {
	r := b.Add()
	c := b.Columns
	c[0].SetBool(r, r%2 == 0)
	for i := 1; i <= 4; i++ {
		c[i].SetInt(r, -int64(r%100))
	}
	c[5].SetFloat(r, 1.5)
	c[6].SetFloat(r, float64(r))
	for i := 7; i <= 10; i++ {
		c[i].SetInt(r, -int64(r%100))
	}
	text := fmt.Sprintf("text of row %d", r)
	if r%3 == 0 {
		text = fmt.Sprint(r)
	}
	c[11].SetText(r, b.Keep([]byte(text)))
	c[12].SetInt(r, int64(r))
	c[13].SetInt(r, int64(r)*1_000_000)
	c[14].SetInt128(r, -1<<63, uint64(r))
	c[15].SetText(r, b.Keep([]byte(`{"a":1.10}`)))
	c[16].SetStruct(r)
	c[16].Fields[0].SetFloat(r, float64(r))
	first := c[17].Elem.Appended()
	for n := range r % 3 {
		e := c[17].Elem.Append()
		c[17].Elem.SetStruct(e)
		tag := c[17].Elem.Fields[1].Elem.Append()
		c[17].Elem.Fields[1].Elem.SetText(tag, b.Keep([]byte(fmt.Sprintf("a long tag, the number %d", n))))
		c[17].Elem.Fields[1].SetList(e, tag, 1)
	}
	c[17].SetList(r, first, r%3)
	if r%7 == 0 {
		for _, column := range c {
			column.SetNull(r)
		}
	}
}

func want(r int) string {
	if r%7 == 0 {
		return strings.Repeat("NULL|", 18)
	}
	text := fmt.Sprintf("text of row %d", r)
	if r%3 == 0 {
		text = fmt.Sprint(r)
	}
	n := -(r % 100)
	cents := fmt.Sprintf("%.2f", float64(n)/100)
	if n == 0 {
		cents = "0.00"
	}
	points := make([]string, r%3)
	for i := range points {
		points[i] = fmt.Sprintf("{'x': NULL, 'tags': ['a long tag, the number %d']}", i)
	}
	return fmt.Sprintf("%v|%d|%d|%d|%d|1.5|%d.0|%s|%s|%s|%s|%s|%%|%%|00000000-0000-0000-0000-%012x|{\"a\":1.10}|{'x': %d.0, 'tags': NULL}|[%s]|",
		r%2 == 0, n, n, n, n, r, cents, cents, cents, cents, text, r, r, strings.Join(points, ", "))
}

// batch is 5,000 rows of everyType: more than two of DuckDB's vectors.
func batch(t *testing.T) *columns.Batch {
	t.Helper()
	b := columns.New(everyType())
	t.Cleanup(b.Free)
	for range 5000 {
		row(b)
	}
	return b
}

// TestSourceTypes reads every type, in an order and with repeats that Only gives.
func TestSourceTypes(t *testing.T) {
	t.Parallel()
	s := session(t)
	rows := duck.NewBatchRows(batch(t))
	for r := int32(4999); r >= 0; r -= 3 {
		rows.Only = append(rows.Only, r)
	}
	if err := s.View(t.Context(), "work.all", rows); err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, c := range everyType() {
		cell := "coalesce(" + duck.Quote(c.Name) + "::VARCHAR, 'NULL')"
		if c.Name == "day" {
			cell = "CASE WHEN day = DATE '1970-01-01' + i THEN '%' ELSE coalesce(day::VARCHAR, 'NULL') END"
		}
		if c.Name == "at" {
			cell = `CASE WHEN epoch_us("at") = d * 1000000 AND day IS NOT NULL THEN '%' ELSE coalesce("at"::VARCHAR, 'NULL') END`
		}
		text = append(text, cell+" || '|'")
	}
	got, err := s.Strings(t.Context(), "SELECT "+strings.ReplaceAll(strings.Join(text, " || "), "DATE '1970-01-01' + i", "DATE '1970-01-01' + d::INTEGER")+" FROM work.all")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(rows.Only) {
		t.Fatalf("%d rows, want %d", len(got), len(rows.Only))
	}
	for i, r := range rows.Only {
		if got[i] != want(int(r)) {
			t.Fatalf("row %d is\n%s, want\n%s", r, got[i], want(int(r)))
		}
	}
}

// TestSourceTexts keeps the text of a json column, and lets JSON functions read it.
func TestSourceTexts(t *testing.T) {
	t.Parallel()
	s := session(t)
	rows := duck.NewBatchRows(batch(t))
	rows.Only = []int32{1, 2, 4}
	if err := s.View(t.Context(), "work.all", rows); err != nil {
		t.Fatal(err)
	}
	got, err := s.Strings(t.Context(), "SELECT typeof(doc) || ' ' || (doc->>'a') || ' ' || doc::VARCHAR FROM work.all")
	if want := `JSON 1.1 {"a":1.10}`; err != nil || !slices.Equal(got, []string{want, want, want}) {
		t.Errorf("%q, %v; want %q three times", got, err, want)
	}
	for query, want := range map[string]string{
		"SELECT count(*)::VARCHAR FROM work.all":                                "3",
		"SELECT string_agg(text, ',') FROM work.all":                            "text of row 1,text of row 2,text of row 4",
		"SELECT a.text FROM work.all AS a JOIN work.all AS b USING (l) LIMIT 1": "text of row 1",
		"SELECT points[2].tags[1] FROM work.all WHERE len(points) > 1":          "a long tag, the number 1",
		"SELECT sum(len(points))::VARCHAR FROM (SELECT points FROM work.all) x": "4",
	} {
		if got, err := s.Strings(t.Context(), query); err != nil || got[0] != want {
			t.Errorf("%s: %q, %v; want %q", query, got, err, want)
		}
	}
}

// TestSourceAgain reads a source several times within one query.
func TestSourceAgain(t *testing.T) {
	t.Parallel()
	s := session(t)
	rows := duck.NewBatchRows(batch(t))
	rows.Only = []int32{1, 2, 4}
	if err := s.View(t.Context(), "work.all", rows); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"WITH RECURSIVE r AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM r JOIN work.all AS a ON a.d = 2 WHERE n < 5) SELECT count(*)::VARCHAR FROM r": "6",
		"SELECT sum((SELECT count(*) FROM work.all WHERE d <= x))::VARCHAR FROM range(1, 5) AS g(x)":                                                  "8",
		"WITH a AS (FROM work.all) SELECT count(*)::VARCHAR FROM a AS b, a AS c":                                                                      "9",
	} {
		if got, err := s.Strings(t.Context(), query); err != nil || got[0] != want {
			t.Errorf("%s: %v, %v; want %s", query, got, err, want)
		}
	}
}

// TestSourceOrder shows that a COPY without ORDER BY writes the rows as they come.
func TestSourceOrder(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 4} {
		t.Run(fmt.Sprint(threads, " threads"), func(t *testing.T) {
			t.Parallel()
			_, s := open(t, threads)
			sourceOrder(t, s)
		})
	}
}

func sourceOrder(t *testing.T, s *duck.Session) {
	t.Helper()
	b := columns.New([]smelt.Column{{Name: "n", Type: typ("bigint")}})
	t.Cleanup(b.Free)
	rows := duck.NewBatchRows(b)
	const many = 300_000 // more than two row groups
	for i := range many {
		b.Columns[0].SetInt(b.Add(), int64(many-i))
		rows.Only = append(rows.Only, int32(many-1-i))
	}
	path := filepath.Join(t.TempDir(), "ordered.parquet")
	err := s.Exec(t.Context(), "COPY (FROM "+s.Provide(rows)+" WHERE n % 3 > 0) TO "+duck.Literal(path)+" (FORMAT parquet)")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Strings(t.Context(), "SELECT count(*) || ' of ' || (SELECT count(*) FROM "+duck.Literal(path)+`) FROM
		(SELECT n, lag(n) OVER (ORDER BY file_row_number) AS before FROM read_parquet(`+duck.Literal(path)+", file_row_number = true)) WHERE before < n")
	if want := fmt.Sprintf("%d of %d", many*2/3-1, many*2/3); err != nil || got[0] != want {
		t.Errorf("%v rows come after a smaller one, %v; want %s", got, err, want)
	}
}

// TestChunks reads a result by vectors, and stops on request.
func TestChunks(t *testing.T) {
	t.Parallel()
	s := session(t)
	query := "SELECT range, 'the text of ' || range, CASE WHEN range % 2 = 0 THEN range::INTEGER END FROM range(5000)"
	n := 0
	err := s.Chunks(t.Context(), query, func(c duck.Chunk) error {
		for i := range c.Len {
			text := string(c.Columns[1].Text(i))
			if c.Columns[0].Int64(i) != int64(n) || text != fmt.Sprintf("the text of %d", n) || c.Columns[2].Valid(i) != (n%2 == 0) {
				t.Fatalf("row %d is %d, %q, %v", n, c.Columns[0].Int64(i), text, c.Columns[2].Value(i))
			}
			n++
		}
		return nil
	})
	if err != nil || n != 5000 {
		t.Errorf("%d rows, %v; want 5000", n, err)
	}
	enough := errors.New("enough")
	if err := s.Chunks(t.Context(), query, func(duck.Chunk) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v, want the reader's error", err)
	}
	err = s.Chunks(t.Context(), "SELECT CAST('abc' AS INTEGER)", func(duck.Chunk) error { return nil })
	if !duck.Malformed(err) {
		t.Errorf("%v, want a conversion error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Chunks(ctx, query, func(duck.Chunk) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
	if got, err := s.Strings(t.Context(), "SELECT 'well'"); err != nil || got[0] != "well" {
		t.Errorf("after that the session gives %v, %v", got, err)
	}
}

// TestKeys tells values apart as SQL does.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := session(t)
	var keys [][]byte
	err := s.Chunks(t.Context(), `SELECT * FROM (VALUES ('a', 'bc', 0.0::DOUBLE), ('ab', 'c', -0.0::DOUBLE), ('ab', 'c', 0.0::DOUBLE), (NULL, 'c', 0.0::DOUBLE), ('', 'c', 0.0::DOUBLE))`,
		func(c duck.Chunk) error {
			for i := range c.Len {
				var key []byte
				for _, v := range c.Columns {
					key = v.AppendKey(key, i)
				}
				keys = append(keys, key)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		for j := range i {
			same := i == 2 && j == 1
			if (string(keys[i]) == string(keys[j])) != same {
				t.Errorf("keys %d and %d: equal is %v, want %v", i, j, !same, same)
			}
		}
	}
}
