package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed pipelines
var pipelineFiles embed.FS

// writePipelines writes the pipelines' folders into dir.
func writePipelines(dir string) error {
	sub, err := fs.Sub(pipelineFiles, "pipelines")
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Clean(dir), sub)
}

// pipeline is one of smelt's pipelines, as this program models it.
type pipeline struct {
	name       string
	topic      string
	partitions int32
	perSecond  int  // events
	located    bool // silver has the place of a row's sensor
	unique     bool // of rows of one id and time one stays

	numberField, timeField string // fields that odd kinds of events damage
	badTime                string // reason for a text that is not a time

	make    func(m *maker, now time.Time) event
	parse   func(value []byte) (row, error)  // of a fine event
	refuse  func(row) (reason, field string) // an expectation that is not met; nil: none can be
	cells   func(row) []string               // of silver, as columns gives them
	columns []string                         // SQL over silver
	floats  []int                            // of the statement's columns, the place included
	models  []model
}

// model is a gold table.
type model struct {
	name      string
	columns   []string // SQL over the table
	floats    []int    // of the columns
	keys      int      // how many of the columns tell its rows apart, the first
	group     func(row) []string
	aggregate func([]row) []string
}

// pipelines are all that there are.
func pipelines() []pipeline { return []pipeline{readings, visits, orders} }

// row is a row of silver, of any pipeline: each uses some of its fields.
type row struct {
	id, sensor               string
	at                       time.Time // of the event
	celsius                  float64
	amount                   int64 // visits: as is; orders: in cents
	items                    int64
	buyer                    string
	isNew                    bool
	city, country, unmatched string // none if there is none
}

// none means NULL.
const none = "∅"

// orNone is a column as text, with NULL distinct from every value.
func orNone(column string) string { return "coalesce(" + column + "::VARCHAR, '" + none + "')" }

// micros writes a time as SQL's epoch_us does.
func micros(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

// float marks a number as one that is written in many ways.
func float(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// cents writes an amount of cents with two decimals.
func cents(n int64) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }

// parseCents reads such an amount.
func parseCents(text string) (int64, error) {
	whole, fraction, ok := strings.Cut(text, ".")
	if !ok || len(fraction) != 2 {
		return 0, fmt.Errorf("amount %q: want two decimals", text)
	}
	return strconv.ParseInt(whole+fraction, 10, 64)
}
