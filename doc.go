// Package smelt refines a stream of raw events into bronze, silver and gold
// tables on object storage.
//
//	source ──▶ ingest ──▶ bronze ──▶ silver ──▶ gold
//	Kafka      records    NDJSON     Iceberg    Iceberg
//	                      objects    table      tables
//
// Each stage reads the durable output of the stage before it. Its position is part of
// the output that it writes. There is no separate state, no control topic and no
// two-phase commit. A stage that dies at any instant is simply run again.
//
// The promises:
//
//   - Nothing is lost, nothing is duplicated. Every record of the source is in bronze
//     exactly once, as received. Every bronze record is in silver, or in quarantine with
//     a reason, or it is a tombstone. Gold equals its SQL run over all of silver.
//   - Late events count. A late event updates the windows that it belongs to.
//   - History can be corrected while the stream runs.
//   - Silver, quarantine and gold are open Iceberg tables that every engine can read.
//   - One command starts it.
//
// This package is the contract: [Record], [Source], [Store], [Stage], the declared
// [Pipeline], and the loop that drives the stages, [Run]. It imports no other package of
// smelt. ingest, bronze, silver and gold are the stages. backfill corrects history,
// upkeep keeps tables small, inspect verifies and reports, shell queries. Each package in
// internal wraps one thing outside. cmd/smelt wires them together.
//
// Start reading with smelt.go, then silver/stage.go. DESIGN.md explains the decisions.
package smelt
