package pipeline

import (
	"strconv"
	"time"

	"smelt"
)

const (
	minRetain = time.Hour   // retention looks once an hour what may go
	maxRetain = 36500 * day // a hundred years

	// minRetainWindows is how many windows of each model silver keeps at least: the current one and the one before it, which late events
	// restate.
	minRetainWindows = 2
)

// retain reads how long the data of a pipeline is kept, and refuses what would
// take rows away before they have served.
func (it item) retain(p *smelt.Pipeline) smelt.Retain {
	var r smelt.Retain
	fields := it.fields(nil, []string{"bronze", "silver", "gold"})
	if bronze, ok := fields["bronze"]; ok {
		r.Bronze = bronze.duration(minRetain, maxRetain)
	}
	if silver, ok := fields["silver"]; ok {
		r.Silver = silver.duration(minRetain, maxRetain)
		silver.retainSilver(r.Silver, p)
	}
	if gold, ok := fields["gold"]; ok {
		r.Gold = gold.duration(minRetain, maxRetain)
		gold.retainGold(r.Gold, p)
	}
	return r
}

func (it item) retainSilver(kept time.Duration, p *smelt.Pipeline) {
	if kept == 0 { // reported already
		return
	}
	if kept < p.Events.Watermark {
		it.fault("silver is kept for %s, less than the watermark of %s: late events would go before gold has them",
			shortDuration(kept), shortDuration(p.Events.Watermark))
	}
	for _, m := range p.Gold {
		if kept < minRetainWindows*m.Window {
			it.fault("silver is kept for %s, less than %d windows of gold.%s (%s each), which are computed from whole windows of silver",
				shortDuration(kept), minRetainWindows, m.Name, shortDuration(m.Window))
		}
	}
}

func (it item) retainGold(kept time.Duration, p *smelt.Pipeline) {
	if kept == 0 {
		return
	}
	if len(p.Gold) == 0 {
		it.fault("there is no gold model: remove the key, or declare a model under gold")
	}
	for _, m := range p.Gold {
		if kept < m.Window {
			it.fault("gold is kept for %s, less than a window of gold.%s (%s), which would go before it has ended",
				shortDuration(kept), m.Name, shortDuration(m.Window))
		}
	}
}

// shortDuration writes a duration of whole seconds in the largest unit that it is
// a whole number of: 36h, 90m, 30d.
func shortDuration(d time.Duration) string {
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}} {
		if d > 0 && d%u.unit == 0 {
			return strconv.Itoa(int(d/u.unit)) + u.name
		}
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}
