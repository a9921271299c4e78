package table

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/iceberg-go"

	"smelt"
)

// File is a data file of a table, or one to be added to it.
type File struct {
	Key       string         // of the store
	Rows      int64          //
	Bytes     int64          //
	Partition map[string]any // by partition field's name, values as NewFile takes them; nil when unpartitioned
	Spec      int            // the id of the partitioning that these values are of
	Snapshot  int64          // that added it, also by compaction; 0 if none has

	schema  *iceberg.Schema
	data    iceberg.DataFile
	figures *figures  // of data, see stats
	made    time.Time // when it was described, by the clock on the wall; zero for a file of a table
}

// NewFile describes a Parquet file that was put at the key f.Path, so that a Change can add it. The file must hold one
// partition. f.Partition has its values by the name of the partition field. For an identity field ("city") that is the
// column's value: string, bool, an integer, or time.Time for dates and timestamps. For year, month, day and hour
// ("event_time_day") it is the transformed integer (since 1970). nil means NULL.
func (t *Table) NewFile(f smelt.DataFile) (File, error) {
	file, err := t.newFile(f)
	if err != nil {
		return File{}, fmt.Errorf("describe %s for %s: %w", f.Path, t.name, err)
	}
	return file, nil
}

func (t *Table) newFile(f smelt.DataFile) (File, error) {
	spec := t.ice.Spec()
	partition, err := toPartition(spec, t.ice.Schema(), f.Partition)
	if err != nil {
		return File{}, err
	}
	return t.describe(f, spec, partition)
}

// Rewritten describes a Parquet file, as NewFile does, that holds rows of files of one partition. like is
// one of these files. Their partitioning may be an earlier one.
func (t *Table) Rewritten(like File, f smelt.DataFile) (File, error) {
	spec := t.ice.Metadata().PartitionSpecByID(like.Spec)
	if spec == nil {
		return File{}, fmt.Errorf("describe %s for %s: the table has no partitioning %d", f.Path, t.name, like.Spec)
	}
	file, err := t.describe(f, *spec, like.data.Partition())
	if err != nil {
		return File{}, fmt.Errorf("describe %s for %s: %w", f.Path, t.name, err)
	}
	return file, nil
}

// describe makes a file of a partition, whose values are by field id.
func (t *Table) describe(f smelt.DataFile, spec iceberg.PartitionSpec, partition map[int]any) (File, error) {
	if f.Rows <= 0 || f.Bytes <= 0 {
		return File{}, fmt.Errorf("%d rows in %d bytes: a file without rows is not added to a table", f.Rows, f.Bytes)
	}
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, t.lake.Path(f.Path), iceberg.ParquetFile,
		partition, nil, nil, f.Rows, f.Bytes)
	if err != nil {
		return File{}, err
	}
	s, err := newStats(t.shape().schema, f)
	if err != nil {
		return File{}, err
	}
	b.ValueCounts(s.values).NullValueCounts(s.nulls).NaNValueCounts(s.nans).LowerBoundValues(s.lower).UpperBoundValues(s.upper)
	file := t.file(b.Build())
	file.made = time.Now().Round(0) // a machine that sleeps does not count its hours otherwise
	return file, nil
}

// stats are a file's statistics by field id.
type stats struct {
	values, nulls, nans map[int]int64
	lower, upper        map[int][]byte
}

func newStats(schema *iceberg.Schema, f smelt.DataFile) (stats, error) {
	s := stats{map[int]int64{}, map[int]int64{}, map[int]int64{}, map[int][]byte{}, map[int][]byte{}}
	for name, b := range f.Columns {
		field, ok := schema.FindFieldByName(name)
		if !ok {
			return s, fmt.Errorf("the table has no column %q", name)
		}
		if _, primitive := field.Type.(iceberg.PrimitiveType); !primitive {
			continue
		}
		s.values[field.ID], s.nulls[field.ID] = f.Rows, b.Nulls
		if floating(field.Type) && !b.NaN {
			s.nans[field.ID] = 0
		}
		if !b.Known || b.NaN || b.Nulls == f.Rows {
			continue
		}
		lower, upper := bounds(field.Type, b.Min, b.Max)
		if lower != nil {
			s.lower[field.ID] = lower
		}
		if upper != nil {
			s.upper[field.ID] = upper
		}
	}
	return s, nil
}

func floating(t iceberg.Type) bool {
	return slices.Contains([]iceberg.Type{iceberg.PrimitiveTypes.Float32, iceberg.PrimitiveTypes.Float64}, t)
}

// entry is the view of a data file that a manifest lists.
func (t *Table) entry(e listed) File {
	f := t.file(e.DataFile())
	f.figures = e.figures
	if e.Status() != iceberg.EntryStatusDELETED { // whose snapshot is the one that removed it
		f.Snapshot = max(0, e.SnapshotID()) // -1: the manifest does not say
	}
	return f
}

// file is the view of a data file.
func (t *Table) file(data iceberg.DataFile) File {
	shape := t.shape()
	return File{
		Key:       t.lake.Key(data.FilePath()),
		Rows:      data.Count(),
		Bytes:     data.FileSizeBytes(),
		Partition: fromPartition(shape.specs[int(data.SpecID())], data.Partition()),
		Spec:      int(data.SpecID()),
		schema:    shape.schema,
		data:      data,
		figures:   &figures{},
	}
}

func (f File) stats() *figures { return f.figures.of(f.data) }
