package backfill

// AtMost bounds how many bytes of silver are read for a count.
func (s *Stale) AtMost(bytes int64) { s.most = bytes }
