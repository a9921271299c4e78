package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// postgresWire is a proxy before PostgreSQL. It follows the protocol as far as it has
// to for knowing a swap of the catalog when it sees one.
type postgresWire struct {
	wire
	target   string
	listener net.Listener
	t        *tally

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// openPostgresWire listens at an address for a server at another.
func openPostgresWire(address, target string, t *tally) (*postgresWire, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	w := &postgresWire{
		wire:   wire{name: "PostgreSQL", faults: []fault{faultLatency, faultReset, faultHole, faultLost}},
		target: target, listener: listener, t: t, conns: map[net.Conn]bool{},
	}
	go w.accept()
	return w, nil
}

func (w *postgresWire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.conns {
		reset(conn)
	}
}

func (w *postgresWire) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return // it was closed
		}
		go w.serve(conn)
	}
}

// hold notes a connection, to be closed with the wire.
func (w *postgresWire) hold(conn net.Conn, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if held {
		w.conns[conn] = true
	} else {
		delete(w.conns, conn)
	}
}

// serve passes on what client and server say, until one of them hangs up.
func (w *postgresWire) serve(client net.Conn) {
	w.hold(client, true)
	defer w.hold(client, false)
	defer reset(client)
	if !w.weather(false) {
		return
	}
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer server.Close()
	s := &session{wire: w, swaps: map[string]bool{}}
	over := make(chan struct{}, 2)
	go func() { s.requests(client, server); over <- struct{}{} }()
	go func() { s.replies(server, client); over <- struct{}{} }()
	<-over
}

// weather holds a piece of a stream up as the fault of the moment says; false: it is
// to be cut. An idle connection is cut when it is used next.
func (w *postgresWire) weather(begun bool) bool {
	switch s := w.now(); s.fault {
	case faultLatency:
		time.Sleep(rand.N(mostLatency / 5)) // a call is several pieces
	case faultReset:
		return rand.IntN(100) >= hitShare/2
	case faultHole:
		<-s.over
		return begun && rand.IntN(2) == 0 // what was held up may arrive after all
	}
	return true
}

// session is one connection.
type session struct {
	wire  *postgresWire
	swaps map[string]bool // prepared statements that swap a table's metadata
	lose  atomic.Bool     // the reply to what was asked is not to arrive
}

// requests passes on what the client says.
func (s *session) requests(from io.Reader, to io.Writer) {
	in, typed := bufio.NewReader(from), false
	for {
		kind, body, raw, err := readMessage(in, typed)
		if err != nil || !s.wire.weather(true) {
			return
		}
		typed = true
		if s.swapping(kind, body) && s.wire.now().fault == faultLost && rand.IntN(100) < hitShare {
			s.wire.t.count(groupLost, "PostgreSQL: of swaps of the catalog", 1)
			s.lose.Store(true)
		}
		if _, err := to.Write(raw); err != nil {
			return
		}
	}
}

// replies passes on what the server says. Where the reply is to be lost it waits
// until the server has done all, and hangs up.
func (s *session) replies(from io.Reader, to io.Writer) {
	in := bufio.NewReader(from)
	for {
		kind, _, raw, err := readMessage(in, true)
		if err != nil {
			return
		}
		if s.lose.Load() {
			if kind == 'Z' { // ready for the next query: this one is committed
				return
			}
			continue
		}
		if !s.wire.weather(true) {
			return
		}
		if _, err := to.Write(raw); err != nil {
			return
		}
	}
}

// swapping says whether a message of the client runs a swap of the catalog's pointer.
// A statement is prepared under a name first, and then bound by it.
func (s *session) swapping(kind byte, body []byte) bool {
	switch kind {
	case 'P':
		name, rest, _ := bytes.Cut(body, []byte{0})
		query, _, _ := bytes.Cut(rest, []byte{0})
		s.swaps[string(name)] = strings.Contains(string(query), "iceberg_tables") && strings.Contains(string(query), "SET metadata_location")
	case 'B':
		_, rest, _ := bytes.Cut(body, []byte{0})
		name, _, _ := bytes.Cut(rest, []byte{0})
		return s.swaps[string(name)]
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
