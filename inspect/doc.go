// Package inspect recounts the lake and reports on it. It only reads. [Verifier.Verify] counts real rows, [Count]
// adds up ledgers, [Gather] reports how each stage is doing, and [Tracer.Trace] follows one record. Start
// reading with verify.go, then status.go.
//
// All of them work while the pipeline runs. They load all tables of a pipeline at one moment, and bronze after
// them, so that bronze has everything that the tables have.
package inspect
