// Package bronze keeps every record of a source, as received, as lines of JSON
// in objects of a store.
//
// It sits between the source and silver. [Writer] is the stage: it polls a
// source and puts objects. [Reader] is how the stage after it, and whoever
// verifies the line, reads them.
//
// The objects of a partition form a chain. An object is named for its position,
// which is the end of the object before it, and its metadata says where it ends
// itself. The first one is at position 0, wherever the log began. So whoever
// wants to go on with a partition must write the one name that comes next, and
// the store lets exactly one succeed. The chain is the only place where the
// position is kept.
package bronze
