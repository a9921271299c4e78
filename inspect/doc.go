// Package inspect recounts the lake and reports on it. It stands beside the line
// and only reads: [Verifier.Verify] counts real rows, [Count] adds up what
// the tables say of themselves, [Gather] tells how each stage is getting on, and
// [Tracer.Trace] follows one record.
//
// All of them work while the pipeline runs. They load a table before the one that
// it is computed from (gold, then quarantine, silver, bronze, the source), so
// that what the later one has is never missing from the earlier one.
package inspect
