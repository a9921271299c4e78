// Package ingest is the head of the line: it reads the records of a source.
//
//	source ──▶ ingest ──▶ bronze
//
// [Kafka] reads a topic of a Kafka cluster. [Log] is a topic in memory. Both pass the
// contract in sourcetest. A source keeps no position of its own: the lake decides where to
// begin, each time a partition is assigned.
//
// [Generate] and [Produce] write to a topic: the demo's readings, or a file of events.
// Start reading with kafka.go, then place.go.
package ingest
