// Package pipeline reads how a pipeline is declared: pipeline.yml, the SELECTs beside it
// and test.txtar. It checks all that can be checked without running SQL, and reports
// every fault at once, each with its file, line and column.
//
// It knows the root package only. Start reading with [Read], then declaration.go, which
// has a method for each part of pipeline.yml. yaml.go is the strict reader below it.
package pipeline
