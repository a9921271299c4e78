package main

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lineage is where a record is in its topic.
type lineage struct {
	partition int32
	offset    int64
}

func (l lineage) String() string { return fmt.Sprintf("%d:%d", l.partition, l.offset) }

// held is a record as its topic holds it.
type held struct {
	lineage
	millis int64 // the broker's timestamp
	key    string
	kind   kind
	value  []byte // nil: a tombstone
}

// table is what a table holds: the other columns of each row by the key of it.
type table map[string]string

// truth is what the lake has to hold for one pipeline.
type truth struct {
	bronze, silver, quarantine table
	gold                       []table // as the pipeline's models
}

// separator parts the cells of a key or of a row. No event has it.
const separator = " | "

func join(cells ...string) string { return strings.Join(cells, separator) }

// work computes the expected lake for a pipeline's records and the places of the sensors. Where smelt may choose which of several
// equal events stays, it follows silver.
func workOut(p pipeline, records []held, places map[string]place, silver table) (truth, error) {
	t := truth{bronze: table{}, silver: table{}, quarantine: table{}}
	var fit []located
	for _, r := range records {
		t.bronze[r.lineage.String()] = join(strconv.FormatInt(r.millis, 10), r.key, headerShown(r), digest(shown(r)))
		if reason, field := rejected(p, r.kind); reason != "" {
			t.quarantine[r.lineage.String()] = join(reason, field, "")
			continue
		}
		if r.kind != kindFine {
			continue // a tombstone
		}
		parsed, err := p.parse(r.value)
		if err != nil {
			return t, fmt.Errorf("%s %v is not what it was made to be: %w", p.topic, r.lineage, err)
		}
		p.locate(&parsed, places)
		if p.refuse != nil {
			if reason, field := p.refuse(parsed); reason != "" {
				t.quarantine[r.lineage.String()] = join(reason, field, "")
				continue
			}
		}
		fit = append(fit, located{r.lineage, parsed})
	}
	if p.unique {
		var repeated table
		fit, repeated = once(fit, silver)
		for at, reject := range repeated {
			t.quarantine[at] = reject
		}
	}
	for _, l := range fit {
		t.silver[l.lineage.String()] = join(p.cells(l.row)...)
	}
	for _, m := range p.models {
		t.gold = append(t.gold, m.compute(fit))
	}
	return t, nil
}

// located is a row with where it came from.
type located struct {
	lineage
	row
}

// locate gives a row the place of its sensor.
func (p pipeline) locate(r *row, places map[string]place) {
	if !p.located {
		return
	}
	r.city, r.country, r.unmatched = none, none, "locations"
	if at, ok := places[r.sensor]; ok {
		r.city, r.country, r.unmatched = at.city, at.country, none
	}
}

// once leaves one of the rows of each id and time, the one that silver holds, and
// gives the rejects for the others.
func once(rows []located, silver table) (kept []located, repeated table) {
	groups := map[string][]located{}
	var order []string
	for _, r := range rows {
		id := join(r.id, micros(r.at))
		if groups[id] == nil {
			order = append(order, id)
		}
		groups[id] = append(groups[id], r)
	}
	repeated = table{}
	for _, id := range order {
		group, stays := groups[id], 0
		for i, r := range group {
			if _, ok := silver[r.lineage.String()]; ok {
				stays = i
				break
			}
		}
		for i, r := range group {
			if i == stays {
				kept = append(kept, r)
				continue
			}
			repeated[r.lineage.String()] = join("duplicate", "", group[stays].lineage.String())
		}
	}
	return kept, repeated
}

// compute gives the rows of a gold table.
func (m model) compute(rows []located) table {
	groups := map[string][]row{}
	for _, r := range rows {
		key := join(m.group(r.row)...)
		groups[key] = append(groups[key], r.row)
	}
	out := table{}
	for key, group := range groups {
		out[key] = join(m.aggregate(group)...)
	}
	return out
}

// rejected says why a record of a kind is in quarantine, and for which field; the
// reason is empty where it is not.
func rejected(p pipeline, k kind) (reason, field string) {
	switch k {
	case kindCut, kindBinary:
		return "not json", ""
	case kindArray:
		return "not an object", ""
	case kindType:
		return "wrong type", p.numberField
	case kindMissing:
		return "missing", p.numberField
	case kindFuture:
		return "time out of bounds", p.timeField
	case kindTime:
		return p.badTime, p.timeField
	case kindUnit:
		return "known unit", "temperature_celsius"
	case kindLarge:
		return "too large", ""
	}
	return "", ""
}

// shown is a record's value as bronze shows it.
func shown(r held) string {
	switch {
	case r.value == nil || r.kind == kindLarge:
		return none
	case !utf8.Valid(r.value):
		return base64.StdEncoding.EncodeToString(r.value)
	}
	return string(r.value)
}

// headerShown is a record's kind as bronze shows it, in a header.
func headerShown(r held) string {
	if r.kind == kindLarge {
		return none
	}
	return string(r.kind)
}

// digest is a text as SQL's md5 gives it.
func digest(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
