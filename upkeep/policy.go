package upkeep

import "time"

// Policy says when maintenance does what. The zero value of each field stands
// for its default.
type Policy struct {
	FileBytes int64 // of a compacted data file; DefaultFileBytes

	Snapshots int           // of main that are kept, the newest; table.KeepLast
	Grace     time.Duration // all younger snapshots are kept; table.KeepGrace
	Hourly    time.Duration // how long the last snapshot of each hour is kept; table.KeepHourly
	Daily     time.Duration // and of each day; table.KeepDaily

	OrphanAge   time.Duration // of a file that no snapshot refers to, before it is deleted; DefaultOrphanAge
	BronzeGrace time.Duration // that objects stay after they were merged; bronze.DefaultGrace
}

const (
	// DefaultFileBytes is what small data files are compacted to. A row group of a
	// file is found by its statistics, so that large ones cost a reader little;
	// beyond some ten MiB they gain nothing here.
	DefaultFileBytes = 64 << 20

	// DefaultOrphanAge is what other engines have, too. It is also the least: a commit
	// refuses files of its own that are half as old.
	DefaultOrphanAge = 72 * time.Hour
)
