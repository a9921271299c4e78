package smelt_test

import (
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/internal/ledger"
	"smelt/silver"
)

// backfill has a process replay something.
func (w *world) backfill() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	if p.dead || p.stopped || p.frozen {
		return
	}
	scope := w.scope()
	p.favoured = w.rng.IntN(3) > 0
	w.note("%s: backfill %s", p.name, scope)
	w.start(p, "backfill", func() error {
		r, err := p.backfill(scope)
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.Published {
			w.published++
		}
		if errors.Is(err, smelt.ErrPipeline) { // there is no table yet
			return nil
		}
		return err
	})
}

// hurries says whether a process is at a backfill that must complete.
func (p *process) hurries() bool { return p.favoured && p.running["backfill"] }

// spared says whether trouble passes a process by, this time.
func (w *world) spared(p *process) bool { return p.hurries() && w.rng.IntN(10) > 0 }

// scope draws what to replay.
func (w *world) scope() backfill.Scope {
	switch w.rng.IntN(6) {
	case 0:
		return backfill.Scope{ReferenceChanges: true}
	case 1:
		return backfill.Scope{All: true}
	case 2:
		return backfill.Scope{Quarantined: true}
	case 3:
		return backfill.Scope{Quarantined: true, Reason: []string{"duplicate", "somewhere", "not json"}[w.rng.IntN(3)]}
	case 4:
		from := w.maker.now.Add(-time.Duration(w.rng.IntN(72)) * time.Hour)
		return backfill.Scope{From: from, To: from.Add(time.Duration(1+w.rng.IntN(24)) * time.Hour)}
	}
	return backfill.Scope{Where: fmt.Sprintf("_partition_offset %% %d = 0", 1+w.rng.IntN(5))}
}

func (p *process) backfill(scope backfill.Scope) (r backfill.Result, err error) {
	job, err := backfill.Open(p.ctx, p.line.Silver.Config, scope)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, job.Close()) }()
	return job.Run(p.ctx, nil)
}

// rollback has a process take silver back to one of its last snapshots: together with
// quarantine, as smelt rollback does, or alone, as another engine does.
func (w *world) rollback() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	if p.dead || p.stopped || p.frozen {
		return
	}
	back, alone := 1+w.rng.IntN(12), w.rng.IntN(3) == 0
	w.start(p, "rollback", func() error {
		pair, err := silver.LoadPair(p.ctx, p.lake, w.load.pipeline.Name)
		if err != nil || pair.Silver == nil {
			return err
		}
		ancestors := pair.Silver.Ancestors()
		if back >= len(ancestors) {
			return nil
		}
		for _, a := range ancestors[back:] {
			if !ledger.Has(a) {
				continue
			}
			if alone {
				_, err = pair.Silver.Rollback(p.ctx, a.ID, nil, "")
				return err
			}
			return pair.Rollback(p.ctx, p.lake, a.ID, "")
		}
		return nil
	})
}

// correctAll has everything corrected that can be, once all trouble is over, and
// checks that silver is then what the references of now make of bronze; and that
// to do it again changes nothing.
func (w *world) correctAll() error {
	p := w.processes[0]
	for round := range 2 {
		for _, scope := range []backfill.Scope{{ReferenceChanges: true}, {Quarantined: true}, {All: true}} {
			w.note("%s: backfill %s", p.name, scope)
			var result backfill.Result
			w.start(p, "backfill", func() (err error) {
				result, err = p.backfill(scope)
				return err
			})
			if err := w.quiet(); err != nil {
				return err
			}
			if round == 1 && result.Published {
				return fmt.Errorf("a second backfill %s changes something: %+v", scope, result)
			}
			if err := w.check.all(); err != nil {
				return fmt.Errorf("after a backfill %s: %w", scope, err)
			}
		}
		if err := w.check.corrected(); err != nil {
			return fmt.Errorf("when all is corrected: %w", err)
		}
	}
	for range 2 {
		for _, s := range p.stages() {
			w.begin(p, s)
			if err := w.quiet(); err != nil {
				return err
			}
		}
	}
	return w.check.complete()
}

// corrected checks that every row is what the references of now make of it, and
// that each record is where they place it.
func (c *checker) corrected() error {
	pair, err := silver.LoadPair(c.ctx, c.lake, c.w.load.pipeline.Name)
	if err != nil {
		return err
	}
	rows, err := c.silverRows(pair.Silver)
	if err != nil {
		return err
	}
	rejects, err := c.rejects(pair.Quarantine)
	if err != nil {
		return err
	}
	places := c.w.places[len(c.w.places)-1]
	kept, reasons := map[lineage]row{}, map[lineage]string{}
	for _, r := range rows {
		kept[r.lineage] = r
	}
	for _, r := range rejects {
		reasons[r.lineage] = r.cells[0]
	}
	survivors, fitting := map[string]bool{}, map[string]bool{}
	for p, sent := range c.w.sent {
		for _, m := range sent {
			if m.sensor == "" && m.unique == "" {
				continue
			}
			at := lineage{int32(p), m.Offset}
			fits := !c.w.load.moody || places[m.sensor] != nowhere
			r, isKept := kept[at]
			switch {
			case isKept && c.w.load.enriched && r.cells[5] != places[m.sensor]:
				return fmt.Errorf("%v of %s is in %q, not in %q", at, m.sensor, r.cells[5], places[m.sensor])
			case isKept && !fits:
				return fmt.Errorf("%v of %s is in silver, though it is nowhere", at, m.sensor)
			case !isKept && !fits && reasons[at] != "somewhere":
				return fmt.Errorf("%v of %s is nowhere, but set aside as %q", at, m.sensor, reasons[at])
			case !isKept && fits && reasons[at] != "duplicate":
				return fmt.Errorf("%v of %s is set aside as %q", at, m.sensor, reasons[at])
			}
			fitting[m.unique] = fitting[m.unique] || fits
			survivors[m.unique] = survivors[m.unique] || isKept
		}
	}
	for unique := range fitting {
		if fitting[unique] && !survivors[unique] {
			return fmt.Errorf("no record of %s is in silver, though one fits", unique)
		}
	}
	return nil
}
