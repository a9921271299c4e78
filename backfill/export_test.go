package backfill

// SetReach has a job call reach at each of its named steps; an error from it ends
// the run there.
func (j *Job) SetReach(reach func(step string) error) { j.reach = reach }

// SetRows has a step of the healer replay about so many rows.
func (h *Healer) SetRows(rows int64) { h.rows = rows }
