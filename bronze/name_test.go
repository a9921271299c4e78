package bronze_test

import (
	"math"
	"slices"
	"testing"

	"smelt/bronze"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	good := map[string]bronze.Name{
		"bronze/sensors/0/00000000000000000000.ndjson.zst":                        {Pipeline: "sensors", Codec: bronze.Zstd},
		"bronze/a_1/2147483647/09223372036854775807.ndjson.gz":                    {Pipeline: "a_1", Partition: math.MaxInt32, Start: math.MaxInt64, Codec: bronze.Gzip},
		"bronze/Sensors/10/00000000000000000017.ndjson.zst":                       {Pipeline: "Sensors", Partition: 10, Start: 17, Codec: bronze.Zstd},
		"bronze/s/0/00000000000000000000-00000000000000000001.ndjson.zst":         {Pipeline: "s", End: 1, Codec: bronze.Zstd},
		"bronze/s/0/00000000000000000007-09223372036854775807.ndjson.gz":          {Pipeline: "s", Start: 7, End: math.MaxInt64, Codec: bronze.Gzip},
		"bronze/s/0/00000000000000000000-00000000000000000009-retired.ndjson.zst": {Pipeline: "s", End: 9, Retired: true, Codec: bronze.Zstd},
	}
	for key, want := range good {
		if got, err := bronze.ParseName(key); err != nil || got != want || got.Key() != key {
			t.Errorf("%s: got %+v, %v", key, got, err)
		}
	}
	for _, key := range []string{
		"", "bronze/", "bronze/sensors/0/", "silver/sensors/0/00000000000000000000.ndjson.zst",
		"bronze/sensors/00/00000000000000000000.ndjson.zst", "bronze/sensors/-1/00000000000000000000.ndjson.zst", "bronze/sensors/+1/00000000000000000000.ndjson.zst",
		"bronze/sensors/2147483648/00000000000000000000.ndjson.zst", "bronze/sensors/0/0.ndjson.zst", "bronze/sensors/0/+0000000000000000000.ndjson.zst",
		"bronze/sensors/0/09223372036854775808.ndjson.zst", "bronze/sensors/0/00000000000000000000.ndjson", "bronze/sensors/0/00000000000000000000.ndjson.zst.zst",
		"bronze//0/00000000000000000000.ndjson.zst", "bronze/sen-sors/0/00000000000000000000.ndjson.zst",
		"bronze/sensors/0/x/00000000000000000000.ndjson.zst", "bronze/s/0/00000000000000000001-00000000000000000001.ndjson.zst",
		"bronze/s/0/00000000000000000000-.ndjson.zst", "bronze/s/0/00000000000000000000-1.ndjson.zst", "bronze/s/0/00000000000000000000-retired.ndjson.zst",
		"bronze/s/0/00000000000000000000-00000000000000000009-.ndjson.zst", "bronze/s/0/00000000000000000000-00000000000000000009-00000000000000000010.ndjson.zst",
		"bronze/s/0/00000000000000000003-00000000000000000009-retired.ndjson.zst", "bronze/s/0/00000000000000000000-00000000000000000009-retired-retired.ndjson.zst", "bronze/s/0/00000000000000000000-00000000000000000009-Retired.ndjson.zst",
	} {
		if got, err := bronze.ParseName(key); err == nil {
			t.Errorf("%s: got %+v, want an error", key, got)
		}
	}
}

func TestNamesSortByPosition(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, start := range []int64{0, 1, 9, 10, 99, 1 << 31, 1 << 62, math.MaxInt64} {
		if start < math.MaxInt64 {
			// A listing has merged objects before the one that they begin with.
			merged := bronze.Name{Pipeline: "p", Start: start, End: math.MaxInt64, Codec: bronze.Zstd}
			retired := merged
			retired.Retired = true
			keys = append(keys, retired.Key(), merged.Key())
		}
		keys = append(keys, bronze.Name{Pipeline: "p", Start: start, Codec: bronze.Zstd}.Key())
	}
	if !slices.IsSorted(keys) {
		t.Errorf("not sorted: %q", keys)
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("bronze/sensors/0/00000000000000000000.ndjson.zst")
	f.Add("bronze/a/2147483647/09223372036854775807.ndjson.gz")
	f.Add("bronze/a/1/00000000000000000007-00000000000000000009-retired.ndjson.zst")
	f.Fuzz(func(t *testing.T, key string) {
		if name, err := bronze.ParseName(key); err == nil && name.Key() != key {
			t.Errorf("%q became %q", key, name.Key())
		}
	})
}
