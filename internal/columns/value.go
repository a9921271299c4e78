package columns

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Valid says whether a row has a value; one that has none is NULL.
func (c *Column) Valid(row int) bool { return c.valid[row>>6]&(1<<(row&63)) != 0 }

func (c *Column) set(row int) { c.valid[row>>6] |= 1 << (row & 63) }

// SetNull takes a row's value away, of a struct with its fields: DuckDB reads
// them without a look at the struct.
func (c *Column) SetNull(row int) {
	c.valid[row>>6] &^= 1 << (row & 63)
	for _, f := range c.Fields {
		f.SetNull(row)
	}
}

// SetBool sets a boolean.
func (c *Column) SetBool(row int, v bool) {
	c.data[row] = 0
	if v {
		c.data[row] = 1
	}
	c.set(row)
}

// SetInt sets a whole number, a date (days since 1970), a time (microseconds
// since 1970) or an unscaled decimal of up to 18 digits. It must fit the column.
func (c *Column) SetInt(row int, v int64) {
	switch c.Width {
	case 1:
		c.data[row] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(c.data[2*row:], uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(c.data[4*row:], uint32(v))
	case 8:
		binary.LittleEndian.PutUint64(c.data[8*row:], uint64(v))
	default:
		c.SetInt128(row, v>>63, uint64(v))
		return
	}
	c.set(row)
}

// SetInt128 sets an unscaled decimal of more than 18 digits, or a UUID, whose
// highest bit DuckDB has the other way round.
func (c *Column) SetInt128(row int, high int64, low uint64) {
	binary.LittleEndian.PutUint64(c.data[16*row:], low)
	binary.LittleEndian.PutUint64(c.data[16*row+8:], uint64(high))
	c.set(row)
}

// SetFloat sets a float or a double.
func (c *Column) SetFloat(row int, v float64) {
	if c.Width == 4 {
		binary.LittleEndian.PutUint32(c.data[4*row:], math.Float32bits(float32(v)))
	} else {
		binary.LittleEndian.PutUint64(c.data[8*row:], math.Float64bits(v))
	}
	c.set(row)
}

// inlined is up to how many bytes a text lies in the column itself.
const inlined = 12

// SetText sets a varchar or a json, from bytes that the batch keeps: what Keep
// returned, or a part of it.
func (c *Column) SetText(row int, kept []byte) {
	cell := c.data[16*row : 16*row+16]
	binary.LittleEndian.PutUint32(cell, uint32(len(kept)))
	if len(kept) <= inlined {
		clear(cell[4:])
		copy(cell[4:], kept)
	} else {
		copy(cell[4:8], kept)
		binary.LittleEndian.PutUint64(cell[8:], uint64(uintptr(unsafe.Pointer(&kept[0])))) // outside of Go's heap
	}
	c.set(row)
}

// SetList sets a list: those of the column's elements from first on.
func (c *Column) SetList(row, first, length int) {
	binary.LittleEndian.PutUint64(c.data[16*row:], uint64(first))
	binary.LittleEndian.PutUint64(c.data[16*row+8:], uint64(length))
	c.set(row)
}

// SetStruct marks that a row has a struct. Its fields are set separately.
func (c *Column) SetStruct(row int) { c.set(row) }

// Int gives a row's whole number, date or time, of up to 64 bits.
func (c *Column) Int(row int) int64 {
	switch c.Width {
	case 1:
		return int64(int8(c.data[row]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(c.data[2*row:])))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(c.data[4*row:])))
	default:
		return int64(binary.LittleEndian.Uint64(c.data[8*row:]))
	}
}

// List gives the place of a row's elements.
func (c *Column) List(row int) (first, length int) {
	return int(binary.LittleEndian.Uint64(c.data[16*row:])), int(binary.LittleEndian.Uint64(c.data[16*row+8:]))
}

// Text gives a row's text. It is valid until the batch is reset.
func (c *Column) Text(row int) []byte {
	cell := c.data[16*row : 16*row+16]
	n := binary.LittleEndian.Uint32(cell)
	if n <= inlined {
		return cell[4 : 4+n]
	}
	address := binary.LittleEndian.Uint64(cell[8:])
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// Gather copies the values of rows, one after the other. dst has room for them.
func (c *Column) Gather(dst []byte, rows []int32) {
	switch c.Width {
	case 1:
		for i, r := range rows {
			dst[i] = c.data[r]
		}
	case 2:
		gather[[2]byte](dst, c.data, rows)
	case 4:
		gather[[4]byte](dst, c.data, rows)
	case 8:
		gather[[8]byte](dst, c.data, rows)
	case 16:
		gather[[16]byte](dst, c.data, rows)
	}
}

// gather copies values of the size of T.
func gather[T any](dst, src []byte, rows []int32) {
	if len(rows) == 0 {
		return
	}
	to := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(dst))), len(rows))
	from := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(src))), len(src)/int(unsafe.Sizeof(*new(T))))
	for i, r := range rows {
		to[i] = from[r]
	}
}
