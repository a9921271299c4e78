package backfill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
	"smelt/backfill"
	"smelt/internal/table"
)

// Rows that another engine has deleted by row are still in the files: a backfill
// would bring them back, so it refuses, and says what to run.
func TestRowDeletes(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.deleteRow(w.files(silverName)[0])
	for _, scope := range []backfill.Scope{{All: true}, {ReferenceChanges: true}, {Quarantined: true}} {
		w.refused(w.process(), scope, table.ErrRowDeletes, "silver.readings", "EXECUTE optimize", "rewrite_data_files")
	}
}

// deleteRow deletes a row of a file of silver, as another engine does: with a file
// of its own that says so.
func (w *world) deleteRow(f table.File) {
	w.t.Helper()
	e := &engine{w}
	t, err := e.LoadTable(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	spec := t.Spec()
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentPosDeletes, t.Location()+"/data/deletes.parquet",
		iceberg.ParquetFile, map[int]any{spec.Field(0).FieldID: iceberg.Date(f.Partition["ts_day"].(int64))}, nil, nil, 1, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	tx := t.NewTransaction()
	if err := tx.NewRowDelta(nil).AddDeletes(b.ReferencedDataFile("s3://test/" + f.Key).Build()).Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// engine is another engine, that of iceberg-go as it comes, over the store and the
// catalog of the world.
type engine struct{ w *world }

func (e *engine) LoadTable(ctx context.Context, _ ice.Identifier) (*ice.Table, error) {
	at, err := e.w.catalog.Current(ctx, silverName)
	if err != nil {
		return nil, err
	}
	return ice.NewFromLocation(ctx, strings.Split(silverName, "."), at[0], func(context.Context) (iceio.IO, error) { return e, nil }, e)
}

func (e *engine) CommitTable(ctx context.Context, _ ice.Identifier, _ []ice.Requirement, updates []ice.Update) (ice.Metadata, string, error) {
	t, err := e.LoadTable(ctx, nil)
	if err != nil {
		return nil, "", err
	}
	meta, err := ice.UpdateTableMetadata(t.Metadata(), updates, t.MetadataLocation())
	if err != nil {
		return nil, "", err
	}
	data, err := json.Marshal(meta)
	if err != nil {
		return nil, "", err
	}
	next := t.Location() + "/metadata/00099-foreign.metadata.json"
	if err := e.WriteFile(next, data); err != nil {
		return nil, "", err
	}
	return meta, next, e.w.catalog.Swap(ctx, smelt.Move{Table: silverName, From: t.MetadataLocation(), To: next})
}

func key(name string) string { return strings.TrimPrefix(name, "s3://test/") }

func (e *engine) Open(name string) (iceio.File, error) {
	body, _, err := e.w.objects.Get(e.w.t.Context(), key(name))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(body)
	return &opened{bytes.NewReader(data), fileInfo{nil, path.Base(name), int64(len(data))}}, err
}

func (e *engine) Remove(name string) error { return e.w.objects.Delete(e.w.t.Context(), key(name)) }

func (e *engine) Create(name string) (iceio.FileWriter, error) {
	return &created{e: e, name: name}, nil
}

func (e *engine) WriteFile(name string, data []byte) error {
	return e.w.objects.Put(e.w.t.Context(), key(name), bytes.NewReader(data), smelt.PutOptions{})
}

type opened struct {
	*bytes.Reader
	info fileInfo
}

func (o *opened) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *opened) Close() error               { return nil }

// fileInfo has what iceberg-go needs of a file.
type fileInfo struct {
	fs.FileInfo
	name string
	size int64
}

func (i fileInfo) Name() string { return i.name }
func (i fileInfo) Size() int64  { return i.size }

type created struct {
	bytes.Buffer
	e    *engine
	name string
}

func (c *created) Close() error { return c.e.WriteFile(c.name, c.Bytes()) }
