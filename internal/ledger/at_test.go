package ledger_test

import (
	"reflect"
	"testing"

	"smelt/internal/ledger"
)

// At and Carry say beforehand what Read says after a rollback.
func TestRollback(t *testing.T) {
	t.Parallel()
	first, second := full(), full()
	second.Records = 200
	tbl := commit(t, newTable(t), nil) // of another engine
	for _, l := range []*ledger.Silver{&first, nil, &second} {
		tbl = commit(t, tbl, l)
	}
	chain := tbl.Ancestors()
	for _, c := range []struct {
		name string
		back int // snapshots
		want *ledger.Silver
	}{
		{"where it is", 0, &second},
		{"a snapshot of another", 1, &first},
		{"one of smelt's", 2, &first},
		{"before there was any", 3, nil},
	} {
		to := chain[c.back]
		got, ok, err := ledger.At[ledger.Silver](tbl, to.ID)
		if err != nil || ok != (c.want != nil) || ok && !reflect.DeepEqual(got, *c.want) {
			t.Errorf("%s: At got %+v, %v, %v", c.name, got, ok, err)
		}
		if has := ledger.Has(to); has != (c.back%2 == 0) {
			t.Errorf("%s: Has got %v", c.name, has)
		}
		carried := ledger.Carry(tbl, to.ID)
		if c.want == nil {
			if carried != nil {
				t.Errorf("%s: Carry got %v", c.name, carried)
			}
			continue
		}
		next, err := tbl.Rollback(t.Context(), to.ID, carried, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, _, ok, err := ledger.Read[ledger.Silver](next); err != nil || !ok || !reflect.DeepEqual(got, *c.want) {
			t.Errorf("%s: Read after the rollback got %+v, %v, %v", c.name, got, ok, err)
		}
		copied := next.Properties()
		for key, text := range carried {
			if copied[key] != text || text == "" {
				t.Errorf("%s: property %s is %q, want %q", c.name, key, copied[key], text)
			}
		}
		if tbl, err = next.Rollback(t.Context(), chain[0].ID, nil, ""); err != nil {
			t.Fatal(err)
		}
	}
}
