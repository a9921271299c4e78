package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
)

// openPostgresWire listens at an address for a PostgreSQL at another.
func openPostgresWire(address, target string, t *tally) (*streamWire, error) {
	faults := []fault{faultLatency, faultReset, faultHole, faultLost}
	return openStreamWire("PostgreSQL", address, target, faults, func(w *streamWire) conversation {
		return &postgresConversation{wire: w, swaps: map[string]bool{}}
	}, t)
}

// postgresConversation follows the protocol as far as it has to for knowing a swap of
// the catalog when it sees one.
type postgresConversation struct {
	wire  *streamWire
	swaps map[string]bool // prepared statements that swap a table's metadata
	lose  atomic.Bool     // the reply to what was asked is not to arrive
}

// requests passes on what the client says.
func (c *postgresConversation) requests(from io.Reader, to io.Writer) {
	in, typed := bufio.NewReader(from), false
	for {
		kind, body, raw, err := readMessage(in, typed)
		if err != nil || !c.wire.weather(true) {
			return
		}
		typed = true
		if c.swapping(kind, body) && c.wire.now().fault == faultLost && rand.IntN(100) < hitShare {
			c.wire.t.count(groupLost, "PostgreSQL: of swaps of the catalog", 1)
			c.lose.Store(true)
		}
		if _, err := to.Write(raw); err != nil {
			return
		}
	}
}

// replies forwards what the server sends. To lose a reply, it waits until the server is done, and closes the connection.
func (c *postgresConversation) replies(from io.Reader, to io.Writer) {
	in := bufio.NewReader(from)
	for {
		kind, _, raw, err := readMessage(in, true)
		if err != nil {
			return
		}
		if c.lose.Load() {
			if kind == 'Z' { // ready for the next query: this one is committed
				return
			}
			continue
		}
		if !c.wire.weather(true) {
			return
		}
		if _, err := to.Write(raw); err != nil {
			return
		}
	}
}

// swapping says whether a message of the client runs a swap of the catalog's pointer.
// A statement is prepared under a name first, and then bound by it.
func (c *postgresConversation) swapping(kind byte, body []byte) bool {
	switch kind {
	case 'P':
		name, rest, _ := bytes.Cut(body, []byte{0})
		query, _, _ := bytes.Cut(rest, []byte{0})
		c.swaps[string(name)] = strings.Contains(string(query), "iceberg_tables") && strings.Contains(string(query), "SET metadata_location")
	case 'B':
		_, rest, _ := bytes.Cut(body, []byte{0})
		name, _, _ := bytes.Cut(rest, []byte{0})
		return c.swaps[string(name)]
	}
	return false
}

// mostMessage bounds a message, in bytes, far above any of smelt's.
const mostMessage = 256 << 20

// readMessage reads one message: a type, unless it is the client's first one, the
// length of the rest, and the body. raw is all of it.
func readMessage(in *bufio.Reader, typed bool) (kind byte, body, raw []byte, err error) {
	head := make([]byte, 5)
	if !typed {
		head = head[:4]
	}
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, nil, nil, err
	}
	if typed {
		kind = head[0]
	}
	size := binary.BigEndian.Uint32(head[len(head)-4:])
	if size < 4 || size > mostMessage {
		return 0, nil, nil, fmt.Errorf("a message of %d bytes", size)
	}
	raw = append(head, make([]byte, size-4)...)
	body = raw[len(head):]
	_, err = io.ReadFull(in, body)
	return kind, body, raw, err
}
