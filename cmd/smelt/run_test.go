package main

import (
	"context"
	"sync"
	"testing"

	"smelt"
)

// stepped is a stage whose steps are functions.
type stepped struct {
	smelt.Stage
	step func()
}

func (s stepped) Step(context.Context) (smelt.Progress, error) {
	s.step()
	return smelt.Progress{Records: 1}, nil
}

// While one steps the others come back at once, and have their turn afterwards.
func TestInTurn(t *testing.T) {
	t.Parallel()
	var turn sync.Mutex
	second := &inTurn{stepped{step: func() {}}, &turn}
	first := &inTurn{stepped{step: func() {
		if p, err := second.Step(t.Context()); p.Records != 0 || err != nil {
			t.Errorf("in another's turn: %+v, %v", p, err)
		}
	}}, &turn}
	for _, s := range []*inTurn{first, second, first} {
		if p, err := s.Step(t.Context()); p.Records != 1 || err != nil {
			t.Errorf("got %+v, %v", p, err)
		}
	}
}
