package store_test

import (
	"testing"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	stores := map[string]func(t *testing.T) smelt.Store{
		"memory": func(*testing.T) smelt.Store { return store.NewMemory() },
		"faulty": func(*testing.T) smelt.Store {
			return store.NewFaulty(store.NewMemory(), func(store.Op) store.Fault { return store.None })
		},
		"s3": func(t *testing.T) smelt.Store { return newBucket(t) },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, open)
		})
	}
}
