package main

import (
	"fmt"
	stdio "io"
	"time"

	"github.com/schollz/progressbar/v3"

	"smelt/backfill"
	"smelt/internal/human"
)

// meterEvery is how often progress is printed without a terminal.
const meterEvery = 2 * time.Second

// meter shows how far a backfill has got: as a bar on a terminal, as a line now
// and then elsewhere.
type meter struct {
	out   stdio.Writer
	bar   *progressbar.ProgressBar // nil without a terminal
	began time.Time
	shown time.Time // the last line
}

// newMeter begins to show how far a backfill of about so many records has got.
func newMeter(out stdio.Writer, total int64) *meter {
	now := time.Now()
	m := &meter{out: out, began: now, shown: now}
	if isTerminal(out) {
		m.bar = progressbar.NewOptions64(total+1, progressbar.OptionSetWriter(out), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("records"), progressbar.OptionSetPredictTime(true))
	}
	return m
}

// show takes in how far it has got.
func (m *meter) show(p backfill.Progress) {
	switch now := time.Now(); {
	case m.bar != nil:
		m.draw(p)
	case p.Waiting:
		fmt.Fprintln(m.out, p.Doing)
	case p.Total > 0 && now.Sub(m.shown) >= meterEvery:
		m.shown = now
		fmt.Fprintln(m.out, progressLine(p, now.Sub(m.began)))
	}
}

// draw draws the bar, which is not full before the job is done.
func (m *meter) draw(p backfill.Progress) {
	if p.Total == 0 {
		m.bar.Describe(p.Doing)
		return
	}
	if p.Total+1 != m.bar.GetMax64() {
		m.bar.ChangeMax64(p.Total + 1)
	}
	m.bar.Describe(counted(p))
	_ = m.bar.Set64(p.Records) // a closed terminal does not stop the backfill
}

// done takes the bar away: what has come out stands in the summary.
func (m *meter) done() {
	if m.bar != nil {
		_ = m.bar.Clear()
	}
}

// counted says what is being done, and how far it has got.
func counted(p backfill.Progress) string {
	return fmt.Sprintf("%s: %s of %s", p.Doing, human.Number(p.Records), amount(p.Total, "record"))
}

// progressLine says how far it has got after a while, how fast, and how long the
// rest will take.
func progressLine(p backfill.Progress, took time.Duration) string {
	rate := float64(p.Records) / took.Seconds()
	if p.Records >= p.Total || rate < 1 {
		return counted(p)
	}
	left := time.Duration(float64(p.Total-p.Records) / rate * float64(time.Second))
	return fmt.Sprintf("%s, %s a second, %s left", counted(p), human.Number(int64(rate)), left.Round(time.Second))
}
