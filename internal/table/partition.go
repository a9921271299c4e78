package table

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// newSpec makes the partitioning of a new table.
func newSpec(schema *iceberg.Schema, partition []smelt.PartitionField) (*iceberg.PartitionSpec, error) {
	opts := make([]iceberg.PartitionOption, len(partition))
	for i, p := range partition {
		transform, err := newTransform(p, schema)
		if err != nil {
			return nil, err
		}
		opts[i] = iceberg.AddPartitionFieldByName(p.Column, fieldName(p), transform, schema, nil)
	}
	spec, err := iceberg.NewPartitionSpecOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("partition: %w", err)
	}
	return &spec, nil
}

// newTransform makes the transform of a field. What a column cannot be partitioned by
// is a bad pipeline.
func newTransform(p smelt.PartitionField, schema *iceberg.Schema) (iceberg.Transform, error) {
	if source, ok := schema.FindFieldByName(p.Column); ok && !Partitionable(duckType(source.Type), p.Transform) {
		return nil, smelt.Mark(smelt.ErrPipeline, fmt.Errorf("partition: %s is of type %s, which cannot be partitioned by %s",
			p.Column, strings.ToLower(duckType(source.Type).String()), p.Transform))
	}
	switch p.Transform {
	case "identity":
		return iceberg.IdentityTransform{}, nil
	case "year":
		return iceberg.YearTransform{}, nil
	case "month":
		return iceberg.MonthTransform{}, nil
	case "day":
		return iceberg.DayTransform{}, nil
	case "hour":
		return iceberg.HourTransform{}, nil
	}
	return nil, fmt.Errorf("partition by %s(%s): the transform must be identity, year, month, day or hour", p.Transform, p.Column)
}

// Partitionable says whether a table can be partitioned by a transform of a column of a
// type: those whose values all engines write, read and compare alike in metadata.
func Partitionable(t smelt.Type, transform string) bool {
	switch t.Name {
	case "timestamp", "timestamptz":
		return true
	case "date":
		return transform != "hour"
	case "varchar", "boolean", "integer", "bigint":
		return transform == "identity"
	}
	return false
}

// fieldName is what a partition field is called, here and by Iceberg's own tools:
// "city" for identity, "event_time_day" for day. Another engine may have given the
// table's another name, which only that engine's SQL shows.
func fieldName(p smelt.PartitionField) string {
	if p.Transform == "identity" {
		return p.Column
	}
	return p.Column + "_" + p.Transform
}

// repartition lists the changes that bring the partitioning to other fields. In
// which order they are does not matter. A field that was there once gets its old
// id, by which Iceberg knows its values in the files that have it.
func (t *Table) repartition(partition []smelt.PartitionField) ([]ice.Update, error) {
	schema, spec := t.ice.Schema(), t.ice.Spec()
	update := ice.NewUpdateSpec(t.ice.NewTransaction(), true)
	same := true
	for _, f := range spec.Fields() {
		if p, live := declared(f, schema); live && !slices.Contains(partition, p) {
			same = false
			update.RemoveField(f.Name)
		}
	}
	have := t.Partition()
	for _, p := range partition {
		if slices.Contains(have, p) {
			continue
		}
		transform, err := newTransform(p, schema)
		if err != nil {
			return nil, err
		}
		same = false
		update.AddField(p.Column, transform, fieldName(p))
	}
	if same {
		return nil, nil
	}
	updates, _, err := update.BuildUpdates()
	if err != nil {
		return nil, fmt.Errorf("partition: %w", err)
	}
	return updates, nil
}

// partitionFields returns a spec as it was declared; fields that another
// engine dropped are left out.
func partitionFields(spec iceberg.PartitionSpec, schema *iceberg.Schema) []smelt.PartitionField {
	var out []smelt.PartitionField
	for _, f := range spec.Fields() {
		if p, live := declared(f, schema); live {
			out = append(out, p)
		}
	}
	return out
}

// declared is a field of a spec as pipeline.yml has it. It is not live when
// another engine has dropped it from a table of Iceberg's first format.
func declared(f iceberg.PartitionField, schema *iceberg.Schema) (p smelt.PartitionField, live bool) {
	_, void := f.Transform.(iceberg.VoidTransform)
	column, _ := schema.FindColumnName(f.SourceID())
	return smelt.PartitionField{Transform: f.Transform.String(), Column: column}, !void
}

// toPartition gives the values of a file's partition, by field name, the types
// that manifests hold, by field id.
func toPartition(spec iceberg.PartitionSpec, schema *iceberg.Schema, values map[string]any) (map[int]any, error) {
	out := make(map[int]any, spec.NumFields())
	for _, f := range spec.Fields() {
		p, live := declared(f, schema)
		if !live {
			continue
		}
		name := fieldName(p)
		v, ok := values[name]
		if !ok {
			return nil, fmt.Errorf("partition field %q has no value", name)
		}
		source, ok := schema.FindFieldByID(f.SourceID())
		if !ok {
			return nil, fmt.Errorf("partition field %q has no source column", name)
		}
		value, err := toPartitionValue(f.Transform.ResultType(source.Type), v)
		if err != nil {
			return nil, fmt.Errorf("partition field %q: %w", name, err)
		}
		out[f.FieldID] = value
	}
	if len(out) != len(values) {
		return nil, fmt.Errorf("%d partition values for the %d fields of %s", len(values), len(out), spec.String())
	}
	return out, nil
}

func toPartitionValue(typ iceberg.Type, v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if i, ok := toInt(v); ok {
		switch typ.(type) {
		case iceberg.Int64Type:
			return i, nil
		case iceberg.Int32Type, iceberg.DateType:
			if i < math.MinInt32 || i > math.MaxInt32 {
				return nil, fmt.Errorf("%d does not fit %s", i, typ)
			}
			if _, date := typ.(iceberg.DateType); date {
				return iceberg.Date(i), nil
			}
			return int32(i), nil
		}
	}
	switch typ.(type) {
	case iceberg.StringType:
		if s, ok := v.(string); ok {
			return s, nil
		}
	case iceberg.BooleanType:
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case iceberg.DateType:
		if t, ok := v.(time.Time); ok {
			return daysSince1970(t), nil
		}
	case iceberg.TimestampType, iceberg.TimestampTzType:
		if t, ok := v.(time.Time); ok {
			return iceberg.Timestamp(t.UnixMicro()), nil
		}
	}
	return nil, fmt.Errorf("a value of type %T does not fit %s", v, typ)
}

func toInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// valueField is a field of a partitioning whose values a File shows.
type valueField struct {
	id       int
	name     string
	identity bool
}

func valueFields(spec iceberg.PartitionSpec, schema *iceberg.Schema) (out []valueField) {
	for _, f := range spec.Fields() {
		if p, live := declared(f, schema); live {
			out = append(out, valueField{f.FieldID, fieldName(p), p.Transform == "identity"})
		}
	}
	return out
}

// fromPartition gives the values of a file's partition by the fields' names, as NewFile
// takes them.
func fromPartition(fields []valueField, values map[int]any) map[string]any {
	if len(fields) == 0 {
		return nil
	}
	out := make(map[string]any, len(fields))
	for _, f := range fields {
		out[f.name] = fromPartitionValue(values[f.id], f.identity)
	}
	return out
}

func fromPartitionValue(v any, identity bool) any {
	switch v := v.(type) {
	case int32:
		return int64(v)
	case iceberg.Date:
		if identity {
			return v.ToTime()
		}
		return int64(v)
	case iceberg.Timestamp:
		return v.ToTime()
	default:
		return v
	}
}

func daysSince1970(t time.Time) iceberg.Date {
	const day = 24 * 60 * 60
	days := t.Unix() / day
	if t.Unix()%day < 0 {
		days--
	}
	return iceberg.Date(days)
}
