package smelt

import "time"

// Pipeline is one folder: a pipeline.yml, its SELECTs and its test. Package pipeline
// reads it. All that a pipeline.yml may hold:
//
//	# What the pipeline does.
//	source: {kafka: topic}
//	events:
//	  time: event_time                 # a column that is timestamptz not null
//	  watermark: 10m                   # optional, 10m by default
//	  columns:
//	    sensor_id:  varchar not null
//	    event_time: timestamptz not null
//	    sent_at:    {type: timestamptz, unit: ms}    # s, ms, us, ns since 1970
//	    price:      {type: 'decimal(10,2)', round: true}  # else 0.125 is quarantined
//	    tags:       varchar[]
//	    place:      struct(lat double, "street no" varchar)
//	references:                        # optional
//	  locations: {table: public.locations, key: sensor_id, on: sensor_id}
//	silver:                            # optional, and so is each key in it
//	  partition: day(event_time)       # or a list; year, month, hour; or a bare column
//	  unique: [sensor_id, event_time]
//	  expect:                          # of each row, else it is quarantined
//	    what it is called: a condition
//	  audit:                           # of what a backfill replays, before it publishes
//	    what it is called: a condition over the tables old and new
//	gold:                              # optional
//	  hourly: {window: 1h, column: hour}
//	retain:                            # optional, and so is each key in it: for ever without
//	  bronze: 30d                      # from when a record was written; 1h at least
//	  silver: 365d                     # from the event time; the watermark at least, and two windows
//	  gold: 1825d                      # from a window's beginning; a window at least
//
// The types are varchar, boolean, tinyint, smallint, integer, bigint, float,
// double, decimal(p,s), date, timestamptz, uuid, json, struct(…) and lists.
// Where YAML takes { or [ or a comma for its own, the text goes in quotes.
type Pipeline struct {
	Name       string // the folder's name: lower-case letters, digits and _
	Dir        string // the folder's path in the fs.FS that it was read from
	Doc        string // the comment at the head of pipeline.yml
	Topic      string // the Kafka topic that it reads
	Events     Events
	References []Reference
	Silver     Silver
	Gold       []Model
	Retain     Retain
	Test       []byte // test.txtar, for pipeline.ReadTest; nil when there is none

	// Places are where pipeline.yml says what: by the keys, and numbers from 0, that lead
	// to a value, joined with NUL. See [Pipeline.Fault].
	Places map[string]Place
}

// Events declares the events of a source.
type Events struct {
	Time      string        // the column that holds the event time
	Watermark time.Duration // how far behind the newest event time late events are expected
	Columns   []Column      // in the order declared
}

// Column is a declared column of the events.
type Column struct {
	Name    string
	Type    Type
	NotNull bool
}

// Type is the type of a column, nested or not.
type Type struct {
	Name   string   // DuckDB's lower-case name: varchar, double, timestamptz, decimal(10,2), list, struct, …
	Unit   string   // of a timestamptz column: "" for ISO 8601 text, or s, ms, us, ns since 1970
	Round  bool     // of a decimal: digits beyond its scale are rounded away, not refused
	Elem   *Type    // of a list
	Fields []Column // of a struct; NotNull is never set in them
}

// Reference declares a table of reference data.
type Reference struct {
	Name  string // silver.sql reads it as reference.<Name>
	Table string // schema.table in Postgres
	Key   string // its unique column
	On    string // the events' column that holds the key
}

// Silver declares how bronze records become silver rows.
type Silver struct {
	SQL       string
	Partition []PartitionField // empty: the table is not partitioned
	Unique    []string         // a key: of several rows that share it, the first stays
	Expect    []Expectation    // in the order declared
	Audit     []Audit          // in the order declared
}

// PartitionField is one field of a table's partitioning.
type PartitionField struct {
	Transform string // identity, year, month, day, hour (never before 1970)
	Column    string
}

// Retain says how long a pipeline's data is kept at least; 0 means without limit. Older data is removed by whole files or objects and counts
// as retired. Tags and unexpired snapshots keep their data.
//
// A window of gold that has lost some of its rows in silver is frozen: it no longer changes.
type Retain struct {
	Bronze time.Duration // since a record was written to bronze
	Silver time.Duration // since the event time
	Gold   time.Duration // since the beginning of a window
}

// Expectation is a condition that each silver row must meet.
type Expectation struct {
	Name, Condition string
}

// Audit is a condition over the rows that a backfill replays. The table old has them as silver has them, the
// table new as silver will have them, with all of silver's columns. If a condition is not true, the backfill
// publishes nothing.
type Audit struct {
	Name, Condition string
}

// Model declares one gold table.
type Model struct {
	Name   string        // gold.<pipeline>_<Name>; its SQL is <Name>.sql
	Window time.Duration // the width of its windows, aligned to 1970 in UTC
	Column string        // the column of its result that holds a window's start
	SQL    string
}
