// Package bronze keeps every record of a source, as received, as lines of JSON
// in objects of a store.
//
// It sits between the source and silver. [Writer] is the stage: it polls a
// source and puts objects. [Reader] is how the stage after it, and whoever
// verifies the line, reads them. [Merger] keeps their number small.
//
// # The chain
//
// The objects of a partition form a chain. An object is named for its position,
// which is the end of the object before it, and its metadata says where it ends
// itself. The first one is at position 0, wherever the log began. So whoever
// wants to go on with a partition must write the one name that comes next, and
// the store lets exactly one succeed. The chain is the only place where the
// position is kept.
//
// # Merged objects
//
// A merged object, <start>-<end>, has the lines of a stretch of the chain. What it
// was made of stays for a while, and other merged objects may lie in it or across
// it. So a reader goes by the floor: where it is, it takes the object that covers
// its position and reaches furthest, of that the records from its position on, and
// goes on where that object ends. Three rules hold at any moment, whoever dies:
//
//   - Nothing is overwritten, and an object is deleted only when another one that
//     covers it has been there for the grace period.
//   - The last object of a chain is never in a merged one, and only what silver has
//     read is. So the object that starts last is the chain's end.
//   - An object that is in a listing and not in the store has been deleted since:
//     another listing shows what covers it. Where nothing does, it is missing, and
//     that is an [ErrBreak].
//
// # Retirement
//
// Retention replaces the beginning of a chain, from 0 to an end, by one object
// 0-<end>-retired, with just the records that are still needed, perhaps none. Its
// [Meta] says how many are gone; the chain's counts stay those of all that it ever
// had. The next retirement covers the one before.
package bronze
