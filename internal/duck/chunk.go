package duck

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2/mapping"
)

// Chunk is some rows of a result.
type Chunk struct {
	Len     int
	Columns []Vector
}

func newChunk(c mapping.DataChunk) Chunk {
	out := Chunk{Len: int(mapping.DataChunkGetSize(c)), Columns: make([]Vector, mapping.DataChunkGetColumnCount(c))}
	for i := range out.Columns {
		out.Columns[i] = newVector(mapping.DataChunkGetVector(c, mapping.IdxT(i)))
	}
	return out
}

// Vector is the values of one column of a chunk. Its type has no elements and no fields.
type Vector struct {
	typ   mapping.Type // a decimal's is that of the number that it is stored as
	data  unsafe.Pointer
	valid unsafe.Pointer // a bit a row; nil: all are
}

func newVector(v mapping.Vector) Vector {
	t := mapping.VectorGetColumnType(v)
	defer mapping.DestroyLogicalType(&t)
	typ := mapping.GetTypeId(t)
	if typ == mapping.TypeDecimal {
		typ = mapping.DecimalInternalType(t)
	}
	return Vector{typ, mapping.VectorGetData(v), mapping.VectorGetValidity(v)}
}

// Valid says whether a row has a value; one that has none is NULL.
func (v Vector) Valid(row int) bool {
	return v.valid == nil || at[uint64](v.valid, row>>6)&(1<<(row&63)) != 0
}

// Int64 gives a BIGINT, or a time in microseconds since 1970.
func (v Vector) Int64(row int) int64 { return at[int64](v.data, row) }

// Int32 gives an INTEGER.
func (v Vector) Int32(row int) int32 { return at[int32](v.data, row) }

// Text gives a VARCHAR. It is valid as long as the chunk.
func (v Vector) Text(row int) []byte {
	cell := (*textCell)(unsafe.Add(v.data, row*int(unsafe.Sizeof(textCell{}))))
	if cell.length <= uint32(len(cell.inlined)) {
		return cell.inlined[:cell.length]
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&cell.inlined[4])), cell.length)
}

// textCell is a text in a vector: up to 12 bytes, or its first four and a pointer.
type textCell struct {
	length  uint32
	inlined [12]byte
}

func at[T any](base unsafe.Pointer, i int) T {
	return *(*T)(unsafe.Add(base, i*int(unsafe.Sizeof(*new(T)))))
}

// AppendKey appends a value so that two values of a column are equal in SQL just
// when their bytes are, also when others follow. NULL is like NULL.
func (v Vector) AppendKey(dst []byte, row int) []byte {
	if !v.Valid(row) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch size := v.width(); {
	case size == 0:
		text := v.Text(row)
		return append(binary.LittleEndian.AppendUint32(dst, uint32(len(text))), text...)
	case v.typ == mapping.TypeDouble:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(plain(at[float64](v.data, row))))
	case v.typ == mapping.TypeFloat:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(plain(float64(at[float32](v.data, row)))))
	default:
		return append(dst, unsafe.Slice((*byte)(unsafe.Add(v.data, row*size)), size)...)
	}
}

// plain makes one zero of two, and one NaN of many: SQL takes them for equal.
func plain(f float64) float64 {
	if f != f {
		return math.NaN()
	}
	return f + 0
}

// width is how many bytes a value has; 0 for a text.
func (v Vector) width() int {
	switch v.typ {
	case mapping.TypeVarchar, mapping.TypeBlob:
		return 0
	case mapping.TypeBoolean, mapping.TypeTinyInt:
		return 1
	case mapping.TypeSmallInt:
		return 2
	case mapping.TypeInteger, mapping.TypeFloat, mapping.TypeDate:
		return 4
	case mapping.TypeBigInt, mapping.TypeDouble, mapping.TypeTimestampTZ, mapping.TypeTimestamp:
		return 8
	case mapping.TypeHugeInt, mapping.TypeUUID:
		return 16
	}
	panic(fmt.Sprintf("duck: a vector of type %d has no plain values", v.typ)) // callers cast what has not
}

// Value gives a value as database/sql would; nil for NULL.
func (v Vector) Value(row int) any {
	if !v.Valid(row) {
		return nil
	}
	switch v.typ {
	case mapping.TypeVarchar:
		return string(v.Text(row))
	case mapping.TypeBoolean:
		return at[bool](v.data, row)
	case mapping.TypeTinyInt:
		return at[int8](v.data, row)
	case mapping.TypeSmallInt:
		return at[int16](v.data, row)
	case mapping.TypeInteger:
		return v.Int32(row)
	case mapping.TypeBigInt:
		return v.Int64(row)
	case mapping.TypeFloat:
		return at[float32](v.data, row)
	case mapping.TypeDouble:
		return at[float64](v.data, row)
	case mapping.TypeDate:
		return time.Unix(int64(v.Int32(row))*24*60*60, 0).UTC()
	case mapping.TypeTimestampTZ, mapping.TypeTimestamp:
		return time.UnixMicro(v.Int64(row)).UTC()
	}
	panic(fmt.Sprintf("duck: a vector of type %d has no value of Go's", v.typ)) // no partition can have one
}
