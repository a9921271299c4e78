package ingest_test

import (
	"reflect"
	"testing"

	"smelt"
	"smelt/ingest"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 4).withClient(t)
	members := func() []ingest.Member {
		t.Helper()
		got, err := ingest.Members(deadline(t), b.cluster, "smelt", topicName)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := members(); len(got) != 0 {
		t.Errorf("before anybody is there: got %v", got)
	}
	source := b.open(t, at(0))
	for p := range int32(4) {
		b.append(t, smelt.Record{Partition: p, Value: []byte("x")})
	}
	for got := 0; got < 4; { // it has been given all partitions then
		records, err := source.Poll(deadline(t), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		got += len(records)
	}
	want := []ingest.Member{{Instance: smelt.Instance(), Host: "127.0.0.1", Partitions: []int32{0, 1, 2, 3}}}
	if got := members(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	if got := members(); len(got) != 0 {
		t.Errorf("after it has left: got %v", got)
	}
}
