// Package store keeps the lake's objects: everything that bronze, silver and
// gold write stands in one bucket, behind [smelt.Store].
//
// [S3] is the real thing, over any S3 that enforces If-None-Match. [Memory] has
// the same semantics in the process, for tests and the simulation. [Faulty]
// decorates a store with faults. [Cache] keeps copies of immutable objects on
// the local disk, for what reads the same files again and again. The contract
// that every one of them passes is in storetest.
package store
