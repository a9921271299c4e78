// Package bronze keeps every record of a source, as received, as lines of JSON in objects
// of a store.
//
// It stands between the source and silver. [Writer] is the stage: it polls a source and
// puts objects. [Reader] reads them, for silver and for verification. [Merger] keeps their
// number small. Start reading with writer.go, then partition.go.
//
// # The chain
//
// The objects of a partition form a chain. An object's name is its position, which is the
// end of the object before it. Its metadata says where it ends. The first object is at
// position 0, wherever the log began. To continue a partition, a writer must create the
// one next name, and the store lets exactly one writer succeed. The position is stored
// nowhere else.
//
// # Merged objects
//
// A merged object, <start>-<end>, has the lines of a stretch of the chain. Its members
// stay for a while, and other merged objects may overlap it. At its position a reader
// takes the object that covers it and reaches furthest. It reads the records from its
// position on and continues where the object ends. Three rules always hold:
//
//   - Nothing is overwritten. An object is deleted only after another one has covered it
//     for the grace period.
//   - The last object of a chain is never merged, and only objects that silver has read
//     are. So the object that starts last is the end of the chain.
//   - An object in a listing may be deleted before it is read. Another listing shows what
//     covers it. If nothing does, it is missing, and that is an [ErrBreak].
//
// # Retirement
//
// Retention replaces the beginning of a chain, from 0 to an end, by one object
// 0-<end>-retired with the records that are still needed. Its [Meta] says how many were
// removed. The chain's counts still include them. The next retirement covers this one.
package bronze
