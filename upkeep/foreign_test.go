package upkeep_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// engine is another engine, that of iceberg-go as it comes, over the store and the
// catalog of a line, on one table.
type engine struct {
	*running
	name string
}

// commit does something to the table in one transaction.
func (e *engine) commit(change func(t *ice.Table, tx *ice.Transaction) error) {
	e.t.Helper()
	t, err := e.LoadTable(e.t.Context(), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	tx := t.NewTransaction()
	if err := change(t, tx); err != nil {
		e.t.Fatal(err)
	}
	if _, err := tx.Commit(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
}

// deleteRows deletes a row of a file with a file of its own that says so.
func (e *engine) deleteRows() {
	e.t.Helper()
	f := e.files(e.name)[0]
	e.commit(func(t *ice.Table, tx *ice.Transaction) error {
		spec := t.Spec()
		b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentPosDeletes, t.Location()+"/data/deletes.parquet",
			iceberg.ParquetFile, map[int]any{spec.Field(0).FieldID: iceberg.Date(f.Partition["ts_day"].(int64))}, nil, nil, 1, 1)
		if err != nil {
			return err
		}
		return tx.NewRowDelta(nil).AddDeletes(b.ReferencedDataFile("s3://test/" + f.Key).Build()).Commit(e.t.Context())
	})
}

// LoadTable implements iceberg-go's CatalogIO.
func (e *engine) LoadTable(ctx context.Context, _ ice.Identifier) (*ice.Table, error) {
	locations, err := e.catalog.Current(ctx, e.name)
	if err != nil {
		return nil, err
	}
	return ice.NewFromLocation(ctx, strings.Split(e.name, "."), locations[0], func(context.Context) (iceio.IO, error) { return e, nil }, e)
}

// CommitTable implements iceberg-go's CatalogIO.
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
	version, _, _ := strings.Cut(path.Base(t.MetadataLocation()), "-")
	at := t.Location() + "/metadata/" + version + "-" + strings.TrimSuffix(path.Base(t.MetadataLocation()), ".metadata.json") + "x.metadata.json"
	return meta, at, errors.Join(e.WriteFile(at, data), e.catalog.Swap(ctx, smelt.Move{Table: e.name, From: t.MetadataLocation(), To: at}))
}

func key(name string) string { return strings.TrimPrefix(name, "s3://test/") }

func (e *engine) Open(name string) (iceio.File, error) {
	body, object, err := e.config.Area.Store.Get(e.t.Context(), key(name))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return &opened{bytes.NewReader(data), object}, err
}

func (e *engine) Create(name string) (iceio.FileWriter, error) {
	return &created{e: e, name: name}, nil
}

func (e *engine) WriteFile(name string, data []byte) error {
	return e.config.Area.Store.Put(e.t.Context(), key(name), bytes.NewReader(data), smelt.PutOptions{})
}

func (e *engine) Remove(name string) error {
	return e.config.Area.Store.Delete(e.t.Context(), key(name))
}

type opened struct {
	*bytes.Reader
	object smelt.Object
}

func (o *opened) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }
func (o *opened) Close() error               { return nil }

type created struct {
	bytes.Buffer
	e    *engine
	name string
}

func (c *created) Close() error { return c.e.WriteFile(c.name, c.Bytes()) }
