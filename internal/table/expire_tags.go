package table

import (
	"cmp"
	"strings"
	"time"

	ice "github.com/apache/iceberg-go/table"
)

// period is a kind of tag: the last snapshot of each past span of time is kept
// for as long as the tag's age says.
type period struct {
	prefix, layout string
	span, age      time.Duration
}

func periods(policy Retention) []period {
	return []period{
		{TagPrefix + "hourly-", "2006010215", time.Hour, cmp.Or(policy.Hourly, KeepHourly)},
		{TagPrefix + "daily-", "20060102", 24 * time.Hour, cmp.Or(policy.Daily, KeepDaily)},
	}
}

type tagPlan struct {
	set  []tag
	over []string
}

// planTags decides which tags to set and which are over. Main's newest
// snapshots are always there, so the last of a span that has just passed is.
func planTags(meta ice.Metadata, main []ice.Snapshot, policy Retention, now time.Time) tagPlan {
	refs := map[string]ice.SnapshotRef{}
	for name, ref := range meta.Refs() {
		refs[name] = ref
	}
	var p tagPlan
	for _, period := range periods(policy) {
		seen := map[string]bool{}
		for _, s := range main {
			at := time.UnixMilli(s.TimestampMs).UTC()
			name := period.prefix + at.Format(period.layout)
			_, there := refs[name]
			open := at.Truncate(period.span).Add(period.span).After(now) // there may be a later one yet
			if there || seen[name] || open || now.Sub(at) > period.age {
				continue
			}
			seen[name] = true
			p.set = append(p.set, tag{name, s.SnapshotID, period.age})
		}
	}
	for name, ref := range refs {
		if over(meta, name, ref, now) {
			p.over = append(p.over, name)
		}
	}
	return p
}

// over says whether a ref is a tag of smelt's own that is past its age.
func over(meta ice.Metadata, name string, ref ice.SnapshotRef, now time.Time) bool {
	if !strings.HasPrefix(name, TagPrefix) || ref.SnapshotRefType != ice.TagRef || ref.MaxRefAgeMs == nil {
		return false
	}
	s := meta.SnapshotByID(ref.SnapshotID)
	return s != nil && now.UnixMilli()-s.TimestampMs > *ref.MaxRefAgeMs
}

func (p tagPlan) updates() []ice.Update {
	var out []ice.Update
	for _, t := range p.set {
		out = append(out, t.update())
	}
	for _, name := range p.over {
		out = append(out, ice.NewRemoveSnapshotRefUpdate(name))
	}
	return out
}
