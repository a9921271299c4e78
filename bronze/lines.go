package bronze

import (
	"bytes"
	"fmt"
	"sync"

	"smelt"
)

// chunkBytes is the size of the pieces that lines are buffered in: small, since
// each partition with a single line holds one, and enough for some 200 lines.
const chunkBytes = 64 << 10

// lines buffers the lines of one object. They lie in chunks, which go back to
// where they came from, so that a buffer grows without copying and the memory
// of one partition serves the next.
type lines struct {
	chunks [][]byte // each holds whole lines
	meta   Meta     // counts what is there
}

// chunks is a stock of empty chunks, safe for concurrent use.
type chunks struct {
	mu   sync.Mutex
	free [][]byte
}

func (c *chunks) get() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.free)
	if n == 0 {
		return make([]byte, 0, chunkBytes)
	}
	b := c.free[n-1]
	c.free = c.free[:n-1]
	return b
}

// put takes chunks back, but for those that a long line has made longer.
func (c *chunks) put(chunks [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range chunks {
		if cap(b) == chunkBytes {
			c.free = append(c.free, b[:0])
		}
	}
}

// add appends the line of a record.
func (l *lines) add(r *smelt.Record, max int, stock *chunks) {
	need := size(r) + envelopeMax // an estimate: should escapes need more, append grows the chunk
	last := len(l.chunks) - 1
	if last < 0 || len(l.chunks[last])+need > chunkBytes {
		l.chunks = append(l.chunks, stock.get())
		last++
	}
	before := len(l.chunks[last])
	l.chunks[last] = AppendLine(l.chunks[last], r, max)
	l.meta.add(r, kindCounted(r, max), len(l.chunks[last])-before)
}

// kindCounted is the record's Kind as far as metadata counts kinds.
func kindCounted(r *smelt.Record, max int) Kind {
	switch {
	case size(r) > max:
		return KindOversize
	case r.Value == nil:
		return KindTombstone
	}
	return KindValue
}

// clear empties the buffer and gives its chunks back.
func (l *lines) clear(stock *chunks) {
	stock.put(l.chunks)
	*l = lines{}
}

// dropBelow takes out the lines of records below an offset.
func (l *lines) dropBelow(offset int64, stock *chunks) error {
	var kept lines
	for _, chunk := range l.chunks {
		for len(chunk) > 0 {
			end := bytes.IndexByte(chunk, '\n') + 1
			line := chunk[:end]
			chunk = chunk[end:]
			decoded, err := Decode(line)
			if err != nil {
				return fmt.Errorf("read back what is buffered: %w", err)
			}
			if decoded.Record.Offset >= offset {
				kept.addLine(line, &decoded, stock)
			}
		}
	}
	kept.meta.End, kept.meta.Epoch = l.meta.End, l.meta.Epoch
	l.clear(stock)
	*l = kept
	return nil
}

func (l *lines) addLine(line []byte, decoded *Line, stock *chunks) {
	last := len(l.chunks) - 1
	if last < 0 || len(l.chunks[last])+len(line) > chunkBytes {
		l.chunks = append(l.chunks, stock.get())
		last++
	}
	l.chunks[last] = append(l.chunks[last], line...)
	l.meta.add(&decoded.Record, decoded.Kind, len(line))
}
