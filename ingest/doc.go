// Package ingest is the head of the line: it brings the records of a source in.
//
//	source ──▶ ingest ──▶ bronze
//
// [Kafka] reads a topic of a Kafka cluster and [Log] is a topic in memory; both
// pass the contract in sourcetest. A source keeps no position of its own: where
// to begin is the lake's to say, each time that a partition changes hands.
//
// [Generate] and [Produce] write to a topic, for the demo and for a file of
// events that is to be fed in.
package ingest
