package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/twmb/avro/ocf"
)

// textFields says by a partitioning's id which of its fields are texts. Partitionings
// without one are left out.
func (t *Table) textFields() map[int][]bool {
	schema, out := t.shape().schema, map[int][]bool{}
	for _, spec := range t.ice.Metadata().PartitionSpecs() {
		texts := make([]bool, spec.NumFields())
		i := 0
		for _, f := range spec.Fields() {
			if source, ok := schema.FindFieldByID(f.SourceID()); ok {
				_, texts[i] = f.Transform.ResultType(source.Type).(iceberg.StringType)
			}
			i++
		}
		if slices.Contains(texts, true) {
			out[spec.ID()] = texts
		}
	}
	return out
}

// isManifestList tells manifest lists by the name that Iceberg gives them.
func isManifestList(name string) bool { return strings.HasPrefix(path.Base(name), "snap-") }

// withEmptyBounds adds the empty text as a bound where a manifest list has no smallest or largest value for
// a partition field of texts. iceberg-go writes the empty text as no bound. Other engines read that as
// "all values are NULL" and skip the manifest's files for a condition on a text. If all values are NULL,
// the change does no harm.
func withEmptyBounds(list []byte, texts map[int][]bool) ([]byte, error) {
	if len(texts) == 0 {
		return list, nil
	}
	r, err := ocf.NewReader(bytes.NewReader(list))
	if err != nil {
		return nil, fmt.Errorf("manifest list: %w", err)
	}
	defer r.Close()
	var manifests []map[string]any
	changed := false
	for {
		var m map[string]any
		err := r.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("manifest list: %w", err)
		}
		id, _ := m["partition_spec_id"].(int32)
		fields, _ := m["partitions"].([]any)
		for i, isText := range texts[int(id)] {
			if !isText || i >= len(fields) {
				continue
			}
			field, _ := fields[i].(map[string]any)
			for _, bound := range []string{"lower_bound", "upper_bound"} {
				if field != nil && field[bound] == nil {
					field[bound], changed = []byte{}, true
				}
			}
		}
		manifests = append(manifests, m)
	}
	if !changed {
		return list, nil
	}
	metadata := map[string][]byte{}
	for key, value := range r.Metadata() {
		if !strings.HasPrefix(key, "avro.") {
			metadata[key] = value
		}
	}
	var out bytes.Buffer
	w, err := ocf.NewWriter(&out, r.Schema(), ocf.WithSchema(string(r.Metadata()["avro.schema"])), ocf.WithMetadata(metadata), ocf.WithCodec(ocf.DeflateCodec(-1)))
	if err != nil {
		return nil, fmt.Errorf("manifest list: %w", err)
	}
	for _, m := range manifests {
		if err := w.Encode(m); err != nil {
			return nil, fmt.Errorf("manifest list: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("manifest list: %w", err)
	}
	return out.Bytes(), nil
}
