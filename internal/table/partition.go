package table

import (
	"fmt"
	"math"
	"time"

	"github.com/apache/iceberg-go"

	"smelt"
)

// newSpec makes the partitioning of a new table, its fields named as Iceberg's
// own tools would: "city" for identity, "event_time_day" for day.
func newSpec(schema *iceberg.Schema, partition []smelt.PartitionField) (*iceberg.PartitionSpec, error) {
	opts := make([]iceberg.PartitionOption, len(partition))
	for i, p := range partition {
		var (
			name      = p.Column + "_" + p.Transform
			transform iceberg.Transform
		)
		switch p.Transform {
		case "identity":
			name, transform = p.Column, iceberg.IdentityTransform{}
		case "year":
			transform = iceberg.YearTransform{}
		case "month":
			transform = iceberg.MonthTransform{}
		case "day":
			transform = iceberg.DayTransform{}
		case "hour":
			transform = iceberg.HourTransform{}
		default:
			return nil, fmt.Errorf("partition by %s(%s): the transform must be identity, year, month, day or hour", p.Transform, p.Column)
		}
		opts[i] = iceberg.AddPartitionFieldByName(p.Column, name, transform, schema, nil)
	}
	spec, err := iceberg.NewPartitionSpecOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("partition: %w", err)
	}
	return &spec, nil
}

// partitionFields returns a spec as it was declared; fields that another
// engine dropped are left out.
func partitionFields(spec iceberg.PartitionSpec, schema *iceberg.Schema) []smelt.PartitionField {
	var out []smelt.PartitionField
	for _, f := range spec.Fields() {
		if _, void := f.Transform.(iceberg.VoidTransform); void {
			continue
		}
		column, _ := schema.FindColumnName(f.SourceID())
		out = append(out, smelt.PartitionField{Transform: f.Transform.String(), Column: column})
	}
	return out
}

// toPartition gives the values of a file's partition, by field name, the types
// that manifests hold, by field id.
func toPartition(spec iceberg.PartitionSpec, schema *iceberg.Schema, values map[string]any) (map[int]any, error) {
	out := make(map[int]any, spec.NumFields())
	for _, f := range spec.Fields() {
		v, ok := values[f.Name]
		if !ok {
			return nil, fmt.Errorf("partition field %q has no value", f.Name)
		}
		source, ok := schema.FindFieldByID(f.SourceID())
		if !ok {
			return nil, fmt.Errorf("partition field %q has no source column", f.Name)
		}
		value, err := toPartitionValue(f.Transform.ResultType(source.Type), v)
		if err != nil {
			return nil, fmt.Errorf("partition field %q: %w", f.Name, err)
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

// fromPartition is the inverse of toPartition, for whichever spec a file has.
func fromPartition(spec *iceberg.PartitionSpec, values map[int]any) map[string]any {
	if spec == nil || spec.NumFields() == 0 {
		return nil
	}
	out := make(map[string]any, spec.NumFields())
	for _, f := range spec.Fields() {
		_, identity := f.Transform.(iceberg.IdentityTransform)
		out[f.Name] = fromPartitionValue(values[f.FieldID], identity)
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
