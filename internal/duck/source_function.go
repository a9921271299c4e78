package duck

/*
#include <stdlib.h>
#include <stdint.h>

void smeltBind(void *);
void smeltInit(void *);
void smeltInitThread(void *);
void smeltRead(void *, void *);
void smeltForget(void *);
*/
import "C"

import (
	"runtime/cgo"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"smelt"
	"smelt/internal/columns"
)

// register makes the table function that reads sources. DuckDB calls the exported
// functions below, and keeps numbers of Go's values, never pointers to them.
func (s *sources) register(conn any) error {
	h, err := handle(conn)
	if err != nil {
		return err
	}
	f := mapping.CreateTableFunction()
	defer mapping.DestroyTableFunction(&f)
	number := mapping.CreateLogicalType(mapping.TypeBigInt)
	defer mapping.DestroyLogicalType(&number)
	mapping.TableFunctionSetName(f, sourceFunction)
	mapping.TableFunctionAddParameter(f, number)
	mapping.TableFunctionSetExtraInfo(f, remember(s), unsafe.Pointer(C.smeltForget))
	mapping.TableFunctionSupportsProjectionPushdown(f, true)
	mapping.TableFunctionSetBind(f, unsafe.Pointer(C.smeltBind))
	mapping.TableFunctionSetInit(f, unsafe.Pointer(C.smeltInit))
	mapping.TableFunctionSetLocalInit(f, unsafe.Pointer(C.smeltInitThread))
	mapping.TableFunctionSetFunction(f, unsafe.Pointer(C.smeltRead))
	if mapping.RegisterTableFunction(h, f) == mapping.StateError {
		return &duckdb.Error{Msg: "register " + sourceFunction}
	}
	return nil
}

// remember gives C a cell with the number of a Go value.
func remember(v any) unsafe.Pointer {
	cell := C.malloc(C.size_t(unsafe.Sizeof(cgo.Handle(0))))
	*(*cgo.Handle)(cell) = cgo.NewHandle(v)
	return cell
}

func recall[T any](cell unsafe.Pointer) T { return (*(*cgo.Handle)(cell)).Value().(T) }

//export smeltForget
func smeltForget(cell unsafe.Pointer) {
	h := *(*cgo.Handle)(cell)
	if t, ok := h.Value().(*threadState); ok && t.part != nil {
		t.part.Close()
	}
	h.Delete()
	C.free(cell)
}

// bound is a source in one query, which may read it several times: a recursive one does.
type bound struct {
	source  Source
	columns []smelt.Column
}

//export smeltBind
func smeltBind(p unsafe.Pointer) {
	info := mapping.BindInfo{Ptr: p}
	number := mapping.BindGetParameter(info, 0)
	n := mapping.GetInt64(number)
	mapping.DestroyValue(&number)
	source, err := recall[*sources](mapping.BindGetExtraInfo(info)).get(n)
	if err != nil {
		mapping.BindSetError(info, err.Error())
		return
	}
	b := &bound{source, source.Columns()}
	for _, c := range b.columns {
		t, err := logicalType(c.Type)
		if err != nil {
			mapping.BindSetError(info, err.Error())
			return
		}
		mapping.BindAddResultColumn(info, c.Name, t)
		mapping.DestroyLogicalType(&t)
	}
	if rows := source.Rows(); rows >= 0 {
		mapping.BindSetCardinality(info, mapping.IdxT(rows), true)
	}
	mapping.BindSetBindData(info, remember(b), unsafe.Pointer(C.smeltForget))
}

// queryState is one scan of a source. projection maps its columns to the source's, or to -1 for one that need not be
// filled.
type queryState struct {
	scan       Scan
	projection []int
}

//export smeltInit
func smeltInit(p unsafe.Pointer) {
	info := mapping.InitInfo{Ptr: p}
	b := recall[*bound](mapping.InitGetBindData(info))
	q := &queryState{b.source.Scan(), make([]int, mapping.InitGetColumnCount(info))}
	for i := range q.projection {
		q.projection[i] = -1
		if n := mapping.InitGetColumnIndex(info, mapping.IdxT(i)); n < mapping.IdxT(len(b.columns)) {
			q.projection[i] = int(n) // else it is the row number, which count(*) requests
		}
	}
	mapping.InitSetMaxThreads(info, mapping.IdxT(q.scan.Parts()))
	mapping.InitSetInitData(info, remember(q), unsafe.Pointer(C.smeltForget))
}

// threadState is what a thread reads.
type threadState struct{ part Part }

//export smeltInitThread
func smeltInitThread(p unsafe.Pointer) {
	mapping.InitSetInitData(mapping.InitInfo{Ptr: p}, remember(&threadState{}), unsafe.Pointer(C.smeltForget))
}

//export smeltRead
func smeltRead(p, out unsafe.Pointer) {
	info, chunk := mapping.FunctionInfo{Ptr: p}, mapping.DataChunk{Ptr: out}
	thread := recall[*threadState](mapping.FunctionGetLocalInitData(info))
	query := recall[*queryState](mapping.FunctionGetInitData(info))
	if thread.part == nil {
		thread.part = query.scan.Part()
	}
	batch, rows, passing, err := thread.part.Next()
	if err != nil {
		mapping.FunctionSetError(info, err.Error())
		return
	}
	if len(rows) > 0 {
		for i, n := range query.projection {
			if n >= 0 {
				fill(mapping.DataChunkGetVector(chunk, mapping.IdxT(i)), batch.Columns[n], rows, passing)
			}
		}
	}
	mapping.DataChunkSetSize(chunk, mapping.IdxT(len(rows)))
}

// fill writes rows of a column into a vector.
func fill(v mapping.Vector, c *columns.Column, rows []int32, passing bool) {
	invalid(v, c, rows)
	switch {
	case len(c.Fields) > 0:
		for i, f := range c.Fields {
			fill(mapping.StructVectorGetChild(v, mapping.IdxT(i)), f, rows, passing)
		}
	case c.Elem != nil:
		fillList(v, c, rows, passing)
	case passing && (c.Type.Name == "varchar" || c.Type.Name == "json"):
		for i, r := range rows {
			if c.Valid(int(r)) {
				mapping.VectorAssignStringElementLen(v, mapping.IdxT(i), c.Text(int(r)))
			}
		}
	default:
		c.Gather(unsafe.Slice((*byte)(mapping.VectorGetData(v)), c.Width*len(rows)), rows)
	}
}

// fillList writes lists: their elements one after the other, and where each lies.
func fillList(v mapping.Vector, c *columns.Column, rows []int32, passing bool) {
	type entry struct{ first, length uint64 }
	entries := unsafe.Slice((*entry)(mapping.VectorGetData(v)), len(rows))
	var elements []int32
	for i, r := range rows {
		entries[i] = entry{first: uint64(len(elements))}
		if !c.Valid(int(r)) {
			continue
		}
		first, length := c.List(int(r))
		entries[i].length = uint64(length)
		for e := range length {
			elements = append(elements, int32(first+e))
		}
	}
	mapping.ListVectorReserve(v, mapping.IdxT(len(elements)))
	mapping.ListVectorSetSize(v, mapping.IdxT(len(elements)))
	if len(elements) > 0 {
		fill(mapping.ListVectorGetChild(v), c.Elem, elements, passing)
	}
}

// invalid marks the rows that are NULL.
func invalid(v mapping.Vector, c *columns.Column, rows []int32) {
	var mask []uint64
	for i, r := range rows {
		if c.Valid(int(r)) {
			continue
		}
		if mask == nil {
			mapping.VectorEnsureValidityWritable(v)
			mask = unsafe.Slice((*uint64)(mapping.VectorGetValidity(v)), (len(rows)+63)/64)
		}
		mask[i>>6] &^= 1 << (i & 63)
	}
}

// logicalType is DuckDB's type for one that a source has.
func logicalType(t smelt.Type) (mapping.LogicalType, error) {
	switch t.Name {
	case "list":
		elem, err := logicalType(*t.Elem)
		if err != nil {
			return elem, err
		}
		defer mapping.DestroyLogicalType(&elem)
		return mapping.CreateListType(elem), nil
	case "struct":
		types, names := make([]mapping.LogicalType, len(t.Fields)), make([]string, len(t.Fields))
		for i, f := range t.Fields {
			var err error
			if types[i], err = logicalType(f.Type); err != nil {
				return types[i], err
			}
			defer mapping.DestroyLogicalType(&types[i])
			names[i] = f.Name
		}
		return mapping.CreateStructType(types, names), nil
	case "json":
		text := mapping.CreateLogicalType(mapping.TypeVarchar)
		mapping.LogicalTypeSetAlias(text, "JSON")
		return text, nil
	}
	if precision, scale, ok := columns.Decimal(t); ok {
		return mapping.CreateDecimalType(uint8(precision), uint8(scale)), nil
	}
	id, ok := plainTypes[t.Name]
	if !ok {
		return mapping.LogicalType{}, &duckdb.Error{Msg: "a source cannot have a column of type " + t.String()}
	}
	return mapping.CreateLogicalType(id), nil
}

var plainTypes = map[string]mapping.Type{
	"boolean": mapping.TypeBoolean, "tinyint": mapping.TypeTinyInt, "smallint": mapping.TypeSmallInt,
	"integer": mapping.TypeInteger, "bigint": mapping.TypeBigInt, "float": mapping.TypeFloat, "double": mapping.TypeDouble,
	"varchar": mapping.TypeVarchar, "date": mapping.TypeDate, "timestamptz": mapping.TypeTimestampTZ, "uuid": mapping.TypeUUID,
}
