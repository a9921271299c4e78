package shell

import (
	"context"
	"errors"
	"slices"
	"time"

	"smelt"
	"smelt/bronze"
)

// fullListing is after how long chains are listed from their beginning again: by
// then objects may have been merged. Those that were listed stay for much longer.
const fullListing = 10 * time.Minute

// relists is how often chains are listed again at once, because an object was deleted.
const relists = 3

// chains is what the shell knows of a pipeline's bronze. The view reads the files
// that are listed here, never a glob: merged objects and what they were merged from
// are there side by side for a while.
type chains struct {
	refs   map[int32][]bronze.Ref // by partition: objects to read
	full   time.Time              // when all was listed last
	shown  []part                 // what the view reads, each partition's in order
	held   []held                 // and where
	source *bronzeSource
	view   string
}

// refreshBronze lists the objects that are new, and makes the view at first.
func (s *Shell) refreshBronze(ctx context.Context, p *smelt.Pipeline) error {
	c := s.chains[p.Name]
	if c == nil {
		source := &bronzeSource{events: p.Events, store: s.cfg.Store}
		c = &chains{refs: map[int32][]bronze.Ref{}, source: source, view: "FROM " + s.console.Provide(source)}
		s.chains[p.Name] = c
	}
	for try := 0; ; try++ {
		err := s.listBronze(ctx, p, c)
		if err == nil {
			break
		}
		if !errors.Is(err, smelt.ErrNotFound) || try == relists {
			return err
		}
		c.full = time.Time{}
	}
	return s.define(ctx, "bronze."+p.Name, s.bronzeAlias(p), c.view)
}

func (s *Shell) bronzeAlias(p *smelt.Pipeline) string {
	if p == s.main {
		return "bronze"
	}
	return ""
}

// listBronze has the view read what the chains hold now.
func (s *Shell) listBronze(ctx context.Context, p *smelt.Pipeline, c *chains) error {
	reader := bronze.NewReader(s.cfg.Store, p.Name)
	partitions, err := reader.Partitions(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	full := now.Sub(c.full) >= fullListing
	var shown []part
	for _, id := range partitions {
		refs, known := c.refs[id], false
		if !full {
			if refs, known, err = beyond(ctx, reader, id, refs); err != nil {
				return err
			}
		}
		if !known {
			if refs, err = reader.Cover(ctx, id); err != nil {
				return err
			}
		}
		c.refs[id] = refs
		parts, err := s.parts(ctx, p, reader, id, refs)
		if err != nil {
			return err
		}
		shown = append(shown, parts...)
	}
	if full {
		c.full = now
	}
	return s.hold(ctx, p, c, shown)
}

// beyond adds newer objects to those of a chain. known is false if the last one was merged in the
// meantime, or if there is none.
func beyond(ctx context.Context, reader *bronze.Reader, partition int32, refs []bronze.Ref) (all []bronze.Ref, known bool, err error) {
	if len(refs) == 0 {
		return nil, false, nil
	}
	for more := true; more; {
		last := refs[len(refs)-1]
		next, err := reader.After(ctx, partition, last.From, everything)
		if errors.Is(err, bronze.ErrBreak) || err == nil && (len(next) == 0 || next[0].Key != last.Key) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		refs = append(refs, next[1:]...)
		more = len(next) > 1 && next[len(next)-1].Followed()
	}
	return refs, true, nil
}

// everything in bytes is more than there is.
const everything = 1 << 62

// parts are what is shown of objects: all, or what was in the lake at a time.
func (s *Shell) parts(ctx context.Context, p *smelt.Pipeline, reader *bronze.Reader, partition int32, refs []bronze.Ref) ([]part, error) {
	if s.past != nil {
		return s.pastParts(ctx, p, reader, partition, refs)
	}
	parts := make([]part, len(refs))
	for i, ref := range refs {
		parts[i] = part{Ref: ref}
	}
	return parts, nil
}

// hold has the view read parts of objects: what it reads already stays where it is.
func (s *Shell) hold(ctx context.Context, p *smelt.Pipeline, c *chains, shown []part) error {
	wanted := map[partKey]bool{}
	for _, o := range shown {
		wanted[o.key()] = true
	}
	c.held = slices.DeleteFunc(c.held, func(h held) bool {
		drop := slices.ContainsFunc(h.parts, func(o part) bool { return !wanted[o.key()] })
		if drop {
			s.local.drop(h)
		}
		return drop
	})
	for _, h := range c.held {
		for _, o := range h.parts {
			delete(wanted, o.key())
		}
	}
	missing := slices.DeleteFunc(slices.Clone(shown), func(o part) bool { return !wanted[o.key()] })
	added, err := s.local.fetch(ctx, bronze.NewReader(s.cfg.Store, p.Name), missing)
	if err != nil {
		for _, h := range added {
			s.local.drop(h)
		}
		return err
	}
	c.shown = shown
	c.held = append(c.held, added...)
	c.source.set(c.held)
	return nil
}
