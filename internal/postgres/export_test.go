package postgres

import "time"

// SetLease says how long the locks that db takes from now on outlive its silence,
// and how often it breaks it.
func (db *DB) SetLease(lease, renewEvery time.Duration) {
	db.lease, db.renewEvery = lease, renewEvery
}
