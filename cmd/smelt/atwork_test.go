package main

import (
	"slices"
	"testing"
)

func TestReadStages(t *testing.T) {
	t.Parallel()
	got := readStages("[+] bronze.x ok\n[-] gold.x_hourly: has not been stepped yet\n[-] silver.x: put a: b; close: c\nnot ready\n")
	want := []stageReady{{"bronze.x", ""}, {"gold.x_hourly", "has not been stepped yet"}, {"silver.x", "put a: b; close: c"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
