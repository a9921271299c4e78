package silver_test

import (
	"slices"
	"testing"

	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

// TestPending goes by the order of silver's snapshots: the one that quarantine has last
// may have expired.
func TestPending(t *testing.T) {
	t.Parallel()
	of := func(sequence int64, l ledger.Silver) table.Snapshot {
		summary, err := ledger.Properties(l)
		if err != nil {
			t.Fatal(err)
		}
		return table.Snapshot{ID: 100 + sequence, Sequence: sequence, Summary: summary}
	}
	some := ledger.Silver{Rejects: &ledger.Rejects{}}
	chain := []table.Snapshot{of(9, some), of(8, ledger.Silver{}), of(7, ledger.Silver{Released: &ledger.Rejects{}}), of(5, some), of(3, some)}
	for _, c := range []struct {
		name string
		have ledger.Quarantine
		want []int64 // sequence numbers
	}{
		{"nothing yet", ledger.Quarantine{}, []int64{3, 5, 7, 9}},
		{"up to one that is there", ledger.Quarantine{SilverSnapshot: 105, SilverSequence: 5}, []int64{7, 9}},
		{"up to one that has expired", ledger.Quarantine{SilverSnapshot: 104, SilverSequence: 4}, []int64{5, 7, 9}},
		{"up to one whose number is not noted", ledger.Quarantine{SilverSnapshot: 107}, []int64{9}},
		{"all", ledger.Quarantine{SilverSnapshot: 109, SilverSequence: 9}, nil},
	} {
		pending, err := silver.Pending(chain, c.have)
		var got []int64
		for _, h := range pending {
			got = append(got, h.Snapshot.Sequence)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v and error %v, want %v", c.name, got, err, c.want)
		}
	}
}
