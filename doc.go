// Package smelt refines a stream of raw events into bronze, silver and gold
// tables on object storage.
//
//	source ──▶ ingest ──▶ bronze ──▶ silver ──▶ gold
//	Kafka      records    NDJSON     Iceberg    Iceberg
//	                      objects    table      tables
//
// Each stage reads only the durable output of the stage before it and keeps
// its own position inside the output that it writes. There is no side database
// of state, no control topic and no two-phase commit, so a stage that dies at
// any instant is simply run again.
//
// What the line promises:
//
//   - Nothing lost, nothing twice. Every record of the source is in bronze
//     exactly once, as received. Every bronze record is either in silver, or in
//     quarantine with a reason, or a tombstone, exactly once. Gold equals its
//     SQL run over all of silver.
//   - Late is never lost. A late event rewrites the windows that it belongs to.
//   - History can be corrected while the stream runs.
//   - Silver, quarantine and gold are open Iceberg tables, for every engine.
//   - One command starts it.
//
// This package is the contract: what a record, a source, a store and a stage
// are ([Record], [Source], [Store], [Stage]), how a pipeline is declared
// ([Pipeline]) and the one loop that drives the stages ([Run]). It imports
// nothing else of smelt. The folders ingest, bronze, silver and gold hold the
// stages, internal/* one package for each thing outside, and cmd/smelt wires
// them together.
package smelt
