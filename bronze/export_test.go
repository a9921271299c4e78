package bronze

// NewRun makes a run of any objects side by side.
var NewRun = newRun

// SetPage says how many objects a listing brings.
func (r *Reader) SetPage(n int) { r.page = n }

// ErrTurn is the error of a writer that drops its buffer.
var ErrTurn = errTurn
