package columns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/columns"
)

func named(names ...string) []smelt.Column {
	out := make([]smelt.Column, len(names))
	for i, n := range names {
		out[i] = smelt.Column{Name: n, Type: smelt.Type{Name: n}}
	}
	return out
}

func list(of smelt.Column) smelt.Column {
	return smelt.Column{Name: "list", Type: smelt.Type{Name: "list", Elem: &of.Type}}
}

func structure(fields ...smelt.Column) smelt.Column {
	return smelt.Column{Name: "struct", Type: smelt.Type{Name: "struct", Fields: fields}}
}

// cell gives the bytes of a value.
func cell(c *columns.Column, row int) []byte {
	b := make([]byte, c.Width)
	c.Gather(b, []int32{int32(row)})
	return b
}

func TestWidths(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"boolean": 1, "tinyint": 1, "smallint": 2, "integer": 4, "bigint": 8, "float": 4, "double": 8, "date": 4, "timestamptz": 8, "varchar": 16, "json": 16, "uuid": 16,
		"decimal(1,0)": 2, "decimal(4,4)": 2, "decimal(5,0)": 4, "decimal(9,2)": 4, "decimal(10,2)": 8, "decimal(18,0)": 8, "decimal(19,0)": 16, "decimal(38,38)": 16,
	} {
		b := columns.New(named(name))
		if got := b.Columns[0].Width; got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
		b.Free()
	}
}

// TestScalars sets a value of each width in every third row, over several
// growths, and wants it and its neighbours' NULL.
func TestScalars(t *testing.T) {
	t.Parallel()
	b := columns.New(named("tinyint", "smallint", "integer", "bigint", "float", "double", "boolean", "decimal(38,0)", "uuid"))
	defer b.Free()
	const rows = 10_000
	for range 2 {
		for i := range rows {
			if row := b.Add(); row != i || b.Len() != i+1 {
				t.Fatalf("row %d of %d, want %d", row, b.Len(), i)
			}
			if i%3 != 0 {
				continue
			}
			v := int64(i) - rows/2
			for _, c := range b.Columns[:4] {
				c.SetInt(i, v)
			}
			b.Columns[4].SetFloat(i, float64(v)/4)
			b.Columns[5].SetFloat(i, float64(v)/4)
			b.Columns[6].SetBool(i, v%2 == 0)
			b.Columns[7].SetInt(i, v)
			b.Columns[8].SetInt128(i, v, uint64(i))
		}
		for i := range rows {
			for _, c := range b.Columns {
				if c.Valid(i) != (i%3 == 0) {
					t.Fatalf("row %d of %s: valid %v", i, c.Name, c.Valid(i))
				}
			}
			if i%3 != 0 {
				continue
			}
			v := int64(i) - rows/2
			got := []any{b.Columns[0].Int(i), b.Columns[1].Int(i), b.Columns[2].Int(i), b.Columns[3].Int(i),
				math.Float32frombits(binary.LittleEndian.Uint32(cell(b.Columns[4], i))), math.Float64frombits(binary.LittleEndian.Uint64(cell(b.Columns[5], i))),
				cell(b.Columns[6], i)[0] == 1, binary.LittleEndian.Uint64(cell(b.Columns[7], i)), binary.LittleEndian.Uint64(cell(b.Columns[7], i)[8:]),
				binary.LittleEndian.Uint64(cell(b.Columns[8], i)), binary.LittleEndian.Uint64(cell(b.Columns[8], i)[8:])}
			want := []any{int64(int8(v)), int64(int16(v)), v, v, float32(v) / 4, float64(v) / 4, v%2 == 0, uint64(v), uint64(v >> 63), uint64(i), uint64(v)}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("row %d:\n got %v\nwant %v", i, got, want)
			}
		}
		b.Reset()
		if b.Len() != 0 || b.Size() != 0 {
			t.Fatalf("after Reset: %d rows, %d bytes", b.Len(), b.Size())
		}
	}
}

// TestTexts keeps texts of all sizes, some larger than what is asked of the
// system at a time.
func TestTexts(t *testing.T) {
	t.Parallel()
	b := columns.New(named("varchar"))
	defer b.Free()
	text := func(i int) string {
		n := []int{0, 1, 12, 13, 100, 70_000, 1 << 20, 3<<20 + 1}[i%8]
		return strings.Repeat(string(rune('a'+i%26)), n)
	}
	for range 3 {
		total := 0
		for i := range 100 {
			row, kept := b.Add(), text(i)
			total += len(kept)
			if i%2 == 0 {
				b.Columns[0].SetText(row, b.Keep([]byte(kept)))
			} else {
				taken := b.Take(len(kept))
				copy(taken, kept)
				b.Columns[0].SetText(row, append(taken[:0], kept...)) // in place: its capacity is what was taken
			}
		}
		for i := range 100 {
			if got := string(b.Columns[0].Text(i)); got != text(i) {
				t.Fatalf("row %d: got %d bytes, want %d", i, len(got), len(text(i)))
			}
		}
		if want := total + 100*16; b.Size() != want { // 16 bytes a text in the column itself
			t.Errorf("the size is %d, want %d", b.Size(), want)
		}
		b.Reset()
	}
	b.Free()
	b.Columns[0].SetText(b.Add(), b.Keep([]byte("a text after everything was freed")))
	if got := string(b.Columns[0].Text(0)); got != "a text after everything was freed" {
		t.Errorf("got %q", got)
	}
}

// TestNested sets lists of structs and of lists.
func TestNested(t *testing.T) {
	t.Parallel()
	b := columns.New([]smelt.Column{list(structure(named("integer")...)), list(list(named("bigint")[0]))})
	defer b.Free()
	structs, lists := b.Columns[0], b.Columns[1]
	for range 2 {
		for i := range 3000 {
			row := b.Add()
			first := structs.Elem.Appended()
			for j := range i % 4 {
				e := structs.Elem.Append()
				if structs.Elem.Valid(e) || structs.Elem.Fields[0].Valid(e) {
					t.Fatalf("element %d of row %d is not NULL at first", j, i)
				}
				if j != 1 {
					structs.Elem.SetStruct(e)
					structs.Elem.Fields[0].SetInt(e, int64(i))
				}
			}
			structs.SetList(row, first, i%4)
			first = lists.Elem.Appended()
			inner := lists.Elem.Elem.Appended()
			for j := range 2 {
				lists.Elem.Elem.SetInt(lists.Elem.Elem.Append(), int64(i*j))
			}
			lists.Elem.SetList(lists.Elem.Append(), inner, 2)
			lists.SetList(row, first, 1)
		}
		for i := range 3000 {
			first, length := structs.List(i)
			if length != i%4 {
				t.Fatalf("row %d: %d structs", i, length)
			}
			for j := range length {
				valid := j != 1
				if structs.Elem.Valid(first+j) != valid || valid && structs.Elem.Fields[0].Int(first+j) != int64(i) {
					t.Fatalf("row %d: struct %d", i, j)
				}
			}
			first, _ = lists.List(i)
			inner, length := lists.Elem.List(first)
			if length != 2 || lists.Elem.Elem.Int(inner) != 0 || lists.Elem.Elem.Int(inner+1) != int64(i) {
				t.Fatalf("row %d: list at %d", i, inner)
			}
		}
		b.Reset()
	}
}

func TestSetNull(t *testing.T) {
	t.Parallel()
	b := columns.New([]smelt.Column{structure(structure(named("integer", "varchar")...))})
	defer b.Free()
	outer := b.Columns[0]
	inner := outer.Fields[0]
	for row := range 2 {
		b.Add()
		outer.SetStruct(row)
		inner.SetStruct(row)
		inner.Fields[0].SetInt(row, 1)
		inner.Fields[1].SetText(row, []byte("x"))
	}
	outer.SetNull(0)
	for _, c := range []*columns.Column{outer, inner, inner.Fields[0], inner.Fields[1]} {
		if c.Valid(0) || !c.Valid(1) {
			t.Errorf("%s: valid %v and %v, want false and true", c.Type, c.Valid(0), c.Valid(1))
		}
	}
}

func TestGather(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tinyint", "smallint", "integer", "bigint", "decimal(20,0)"} {
		b := columns.New(named(name))
		for i := range 100 {
			b.Columns[0].SetInt(b.Add(), int64(i))
		}
		width := b.Columns[0].Width
		rows, dst := []int32{99, 0, 7, 7}, bytes.Repeat([]byte{0xff}, 5*width)
		b.Columns[0].Gather(dst, rows)
		b.Columns[0].Gather(dst, nil)
		for i, r := range rows {
			want := make([]byte, width)
			want[0] = byte(r)
			if got := dst[i*width : (i+1)*width]; !bytes.Equal(got, want) {
				t.Errorf("%s: value %d is % x, want % x", name, i, got, want)
			}
		}
		if dst[4*width] != 0xff {
			t.Errorf("%s: Gather wrote beyond the values", name)
		}
		b.Free()
	}
}

func TestDecimal(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][3]any{
		"decimal(10,2)": {10, 2, true}, "decimal(38, 0)": {38, 0, true}, "varchar": {0, 0, false}, "decimal": {0, 0, false}, "list": {0, 0, false},
	} {
		p, s, ok := columns.Decimal(smelt.Type{Name: name})
		if got := [3]any{p, s, ok}; ok != want[2] || ok && got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
