package main

import "fmt"

// place is a row of the reference table public.locations.
type place struct{ city, country string }

// nowhere is a city whose records the pipeline visits rejects.
const nowhere = "Nowhere"

// cities are where a sensor may be.
var cities = []place{
	{"Helsinki", "Finland"}, {"Espoo", "Finland"}, {"Berlin", "Germany"}, {"São Paulo", "Brazil"},
	{"New York", "United States"}, {"Tokyo", "Japan"}, {nowhere, "None"},
}

const (
	sensors  = 40
	placed   = 30 // of them, the first, have a place from the start
	homeless = 4  // and the last never have one
)

// sensor is the name of one.
func sensor(i int) string { return fmt.Sprintf("s-%02d", i) }
