package table

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"

	"smelt"
)

// newSchema makes the schema of a new table. iceberg-go gives the fields their
// final ids; those made here only tell them apart.
func newSchema(columns []smelt.Column) (*iceberg.Schema, error) {
	if len(columns) == 0 {
		return nil, fmt.Errorf("a table needs a column")
	}
	id := 0
	fields, err := newFields(columns, &id)
	if err != nil {
		return nil, err
	}
	return iceberg.NewSchema(0, fields...), nil
}

// newFields makes fields of columns, all of them optional: that is how DuckDB
// writes every column.
func newFields(columns []smelt.Column, id *int) ([]iceberg.NestedField, error) {
	fields := make([]iceberg.NestedField, len(columns))
	seen := make(map[string]bool, len(columns))
	for i, c := range columns {
		if folded := strings.ToLower(c.Name); seen[folded] {
			return nil, fmt.Errorf("column %q is there twice (names differ in more than case)", c.Name)
		} else {
			seen[folded] = true
		}
		*id++
		fields[i] = iceberg.NestedField{ID: *id, Name: c.Name}
		typ, err := newType(c.Type, id)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.Name, err)
		}
		fields[i].Type = typ
	}
	return fields, nil
}

var decimalName = regexp.MustCompile(`^decimal\((\d+), ?(\d+)\)$`)

// newType returns the Iceberg type that holds a DuckDB type.
func newType(t smelt.Type, id *int) (iceberg.Type, error) {
	switch t.Name {
	case "boolean":
		return iceberg.PrimitiveTypes.Bool, nil
	case "tinyint", "smallint", "integer":
		return iceberg.PrimitiveTypes.Int32, nil
	case "bigint":
		return iceberg.PrimitiveTypes.Int64, nil
	case "real", "float":
		return iceberg.PrimitiveTypes.Float32, nil
	case "double":
		return iceberg.PrimitiveTypes.Float64, nil
	case "varchar", "json":
		return iceberg.PrimitiveTypes.String, nil
	case "date":
		return iceberg.PrimitiveTypes.Date, nil
	case "time":
		return iceberg.PrimitiveTypes.Time, nil
	case "timestamp":
		return iceberg.PrimitiveTypes.Timestamp, nil
	case "timestamptz", "timestamp with time zone":
		return iceberg.PrimitiveTypes.TimestampTz, nil
	case "uuid":
		return iceberg.PrimitiveTypes.UUID, nil
	case "blob":
		return iceberg.PrimitiveTypes.Binary, nil
	case "list":
		return newList(t, id)
	case "struct":
		fields, err := newFields(t.Fields, id)
		if err != nil {
			return nil, err
		}
		return &iceberg.StructType{FieldList: fields}, nil
	}
	return newDecimal(t.Name)
}

func newList(t smelt.Type, id *int) (iceberg.Type, error) {
	if t.Elem == nil {
		return nil, fmt.Errorf("the list has no element type")
	}
	*id++
	list := &iceberg.ListType{ElementID: *id}
	elem, err := newType(*t.Elem, id)
	if err != nil {
		return nil, err
	}
	list.Element = elem
	return list, nil
}

func newDecimal(name string) (iceberg.Type, error) {
	if name == "decimal" {
		return iceberg.DecimalTypeOf(18, 3), nil // DuckDB's default
	}
	m := decimalName.FindStringSubmatch(name)
	if m == nil {
		return nil, fmt.Errorf("type %q has no place in an Iceberg table", name)
	}
	precision, _ := strconv.Atoi(m[1])
	scale, _ := strconv.Atoi(m[2])
	if precision < 1 || precision > 38 || scale > precision {
		return nil, fmt.Errorf("type %q: the precision must be 1 to 38 and the scale at most the precision", name)
	}
	return iceberg.DecimalTypeOf(precision, scale), nil
}

// columns returns fields as DuckDB sees them.
func columns(fields []iceberg.NestedField) []smelt.Column {
	out := make([]smelt.Column, len(fields))
	for i, f := range fields {
		out[i] = smelt.Column{Name: f.Name, Type: duckType(f.Type), NotNull: f.Required}
	}
	return out
}

func duckType(t iceberg.Type) smelt.Type {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return smelt.Type{Name: "boolean"}
	case iceberg.Int32Type:
		return smelt.Type{Name: "integer"}
	case iceberg.Int64Type:
		return smelt.Type{Name: "bigint"}
	case iceberg.Float32Type:
		return smelt.Type{Name: "float"}
	case iceberg.Float64Type:
		return smelt.Type{Name: "double"}
	case iceberg.DecimalType:
		return smelt.Type{Name: fmt.Sprintf("decimal(%d,%d)", t.Precision(), t.Scale())}
	case iceberg.StringType:
		return smelt.Type{Name: "varchar"}
	case iceberg.DateType:
		return smelt.Type{Name: "date"}
	case iceberg.TimeType:
		return smelt.Type{Name: "time"}
	case iceberg.TimestampType:
		return smelt.Type{Name: "timestamp"}
	case iceberg.TimestampTzType:
		return smelt.Type{Name: "timestamptz"}
	case iceberg.UUIDType:
		return smelt.Type{Name: "uuid"}
	case iceberg.BinaryType, iceberg.FixedType:
		return smelt.Type{Name: "blob"}
	case *iceberg.ListType:
		elem := duckType(t.Element)
		return smelt.Type{Name: "list", Elem: &elem}
	case *iceberg.StructType:
		return smelt.Type{Name: "struct", Fields: columns(t.FieldList)}
	case *iceberg.MapType: // another engine's, as what follows
		return smelt.Type{Name: fmt.Sprintf("map(%s, %s)", duckType(t.KeyType), duckType(t.ValueType))}
	default:
		return smelt.Type{Name: t.String()}
	}
}

// rewritable says whether DuckDB writes values of a type as they were: a fixed
// would become a binary, and a field within a map cannot be found by its id.
func rewritable(t iceberg.Type) bool {
	switch t := t.(type) {
	case *iceberg.ListType:
		return rewritable(t.Element)
	case *iceberg.StructType:
		return !slices.ContainsFunc(t.FieldList, func(f iceberg.NestedField) bool { return !rewritable(f.Type) })
	case iceberg.DecimalType:
		return true
	}
	return slices.Contains([]iceberg.Type{
		iceberg.PrimitiveTypes.Bool, iceberg.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Int64, iceberg.PrimitiveTypes.Float32,
		iceberg.PrimitiveTypes.Float64, iceberg.PrimitiveTypes.String, iceberg.PrimitiveTypes.Date, iceberg.PrimitiveTypes.Time,
		iceberg.PrimitiveTypes.Timestamp, iceberg.PrimitiveTypes.TimestampTz, iceberg.PrimitiveTypes.UUID, iceberg.PrimitiveTypes.Binary,
	}, t)
}

// fieldIDs returns what follows FIELD_IDS in DuckDB's COPY for fields.
func fieldIDs(fields []iceberg.NestedField) string {
	items := make([]string, len(fields))
	for i, f := range fields {
		items[i] = quote(f.Name) + ": " + fieldID(f.ID, f.Type)
	}
	return "{" + strings.Join(items, ", ") + "}"
}

func fieldID(id int, t iceberg.Type) string {
	switch t := t.(type) {
	case *iceberg.ListType:
		return fmt.Sprintf("{__duckdb_field_id: %d, element: %s}", id, fieldID(t.ElementID, t.Element))
	case *iceberg.StructType:
		return fmt.Sprintf("{__duckdb_field_id: %d, %s", id, fieldIDs(t.FieldList)[1:])
	case *iceberg.MapType:
		return fmt.Sprintf("{__duckdb_field_id: %d, key: %s, value: %s}", id, fieldID(t.KeyID, t.KeyType), fieldID(t.ValueID, t.ValueType))
	default:
		return strconv.Itoa(id)
	}
}

// parquetSchema returns what follows schema = in DuckDB's read_parquet for fields.
func parquetSchema(fields []iceberg.NestedField) string {
	items := make([]string, len(fields))
	for i, f := range fields {
		items[i] = fmt.Sprintf("%d: {name: %s, type: %s, default_value: NULL}", f.ID, literalText(f.Name), literalText(duckType(f.Type).String()))
	}
	return "MAP {" + strings.Join(items, ", ") + "}"
}

// structFields collects the names of the fields of structs, however deep, by id.
func structFields(t iceberg.Type, names map[int]string) {
	switch t := t.(type) {
	case *iceberg.ListType:
		structFields(t.Element, names)
	case *iceberg.MapType:
		structFields(t.ValueType, names)
	case *iceberg.StructType:
		for _, f := range t.FieldList {
			names[f.ID] = f.Name
			structFields(f.Type, names)
		}
	}
}

func literalText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
