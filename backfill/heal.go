package backfill

import (
	"context"
	"errors"
	"fmt"

	"smelt"
	"smelt/internal/ledger"
	"smelt/silver"
)

// healRows is about how many rows a step of the healer replays: what is done in
// a moment, so that the stream hardly notices.
const healRows = 50_000

// Healer replays rows that found no reference row, once there is one: a small backfill at a
// time. It is a [smelt.Stage].
type Healer struct {
	silver.Config
	rows   int64 // about how many a step replays
	healed int64 // version of the references at which nothing was left to heal
	looked look  // the last at which nothing was left, at a version that silver had not seen yet
}

// look is a look at a snapshot of silver, with references of a version.
type look struct{ snapshot, version int64 }

// NewHealer makes the healer of a pipeline.
func NewHealer(cfg silver.Config) *Healer { return &Healer{Config: cfg, rows: healRows, healed: -1} }

// Name tells the healer from the stages that write the tables.
func (h *Healer) Name() string { return "heal." + h.Pipeline.Name }

// Step heals some rows, when a reference has changed since nothing was left to heal.
func (h *Healer) Step(ctx context.Context) (smelt.Progress, error) {
	if len(h.Pipeline.References) == 0 {
		return smelt.Progress{}, nil
	}
	version, err := h.References.Version(ctx, h.Pipeline.References)
	if err != nil || version == h.healed {
		return smelt.Progress{}, err
	}
	t, err := h.Area.Lake.Load(ctx, silver.TableName(h.Pipeline.Name))
	if errors.Is(err, smelt.ErrNotFound) {
		return smelt.Progress{}, nil
	}
	if err != nil {
		return smelt.Progress{}, err
	}
	l, _, _, err := ledger.Read[ledger.Silver](t)
	if err != nil {
		return smelt.Progress{}, err
	}
	current, _ := t.Current()
	if l.Unmatched == 0 || h.looked == (look{current.ID, version}) {
		return smelt.Progress{}, nil
	}
	r, err := h.heal(ctx)
	if err != nil {
		return smelt.Progress{}, fmt.Errorf("%s: %w", h.Name(), err)
	}
	switch over := !r.More || !r.Differs; { // those that still find none would be found again and again
	case over && (r.Published || l.ReferenceVersion >= version):
		h.healed = version
	case over: // a step of the stage that began with an older version may still come
		h.looked = look{current.ID, version}
	}
	if r.Published {
		h.Log.Info("rows found their reference", "pipeline", h.Pipeline.Name, "rows", r.Differing, "snapshot", r.After)
	}
	return smelt.Progress{Records: r.Replayed, Bytes: r.Bytes, More: r.More}, nil
}

func (h *Healer) heal(ctx context.Context) (r Result, err error) {
	job, err := Open(ctx, h.Config, Scope{Unmatched: true, Most: h.rows})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, job.Close()) }()
	return job.Run(ctx, nil)
}
