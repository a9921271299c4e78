package postgres

import "time"

// SetLease says how long the locks that db takes from now on outlive its silence,
// and how often it breaks it.
func (db *DB) SetLease(lease, renewEvery time.Duration) {
	db.lease, db.renewEvery = lease, renewEvery
}

// SetWaitFor says how long one turn of a wait for a lock is.
func (db *DB) SetWaitFor(d time.Duration) { db.waitFor = d }
