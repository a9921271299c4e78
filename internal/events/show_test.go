package events_test

import (
	"encoding/hex"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"smelt/internal/columns"
)

// show prints a value as a person writes it.
func show(c *columns.Column, row int) string {
	if !c.Valid(row) {
		return "NULL"
	}
	switch c.Type.Name {
	case "boolean":
		return strconv.FormatBool(c.Int(row) != 0)
	case "tinyint", "smallint", "integer", "bigint":
		return strconv.FormatInt(c.Int(row), 10)
	case "float":
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(c.Int(row)))), 'g', -1, 32)
	case "double":
		return strconv.FormatFloat(math.Float64frombits(uint64(c.Int(row))), 'g', -1, 64)
	case "varchar":
		return strconv.Quote(string(c.Text(row)))
	case "json":
		return string(c.Text(row))
	case "date":
		return time.Unix(c.Int(row)*24*60*60, 0).UTC().Format(time.DateOnly)
	case "timestamptz":
		return time.UnixMicro(c.Int(row)).UTC().Format(time.RFC3339Nano)
	case "uuid":
		b := bigEndian(c, row)
		b[0] ^= 0x80
		h := hex.EncodeToString(b)
		return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
	case "list":
		first, length := c.List(row)
		elems := make([]string, length)
		for i := range elems {
			elems[i] = show(c.Elem, first+i)
		}
		return "[" + strings.Join(elems, " ") + "]"
	case "struct":
		fields := make([]string, len(c.Fields))
		for i, f := range c.Fields {
			fields[i] = f.Name + ":" + show(f, row)
		}
		return "{" + strings.Join(fields, " ") + "}"
	}
	return showDecimal(c, row)
}

func showDecimal(c *columns.Column, row int) string {
	_, scale, _ := columns.Decimal(c.Type)
	b := bigEndian(c, row)
	unscaled := new(big.Int).SetBytes(b)
	if b[0] >= 0x80 {
		unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	denominator := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return new(big.Rat).SetFrac(unscaled, denominator).FloatString(scale)
}

// bigEndian gives the bytes of a value, the highest first.
func bigEndian(c *columns.Column, row int) []byte {
	b := make([]byte, c.Width)
	c.Gather(b, []int32{int32(row)})
	slices.Reverse(b)
	return b
}

// showRow prints the columns of a row.
func showRow(b *columns.Batch, row int) string {
	shown := make([]string, len(b.Columns))
	for i, c := range b.Columns {
		shown[i] = c.Name + "=" + show(c, row)
	}
	return strings.Join(shown, " ")
}
