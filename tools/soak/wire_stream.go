package main

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// streamWire is a proxy before a service that answers on the connection on which it
// was asked, in a protocol of its own.
type streamWire struct {
	wire
	target   string
	listener net.Listener
	converse func(*streamWire) conversation
	t        *tally

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// conversation passes on what is said on one connection, each way until the other side
// hangs up or the weather cuts it.
type conversation interface {
	requests(from io.Reader, to io.Writer)
	replies(from io.Reader, to io.Writer)
}

// openStreamWire listens at an address for a server at another.
func openStreamWire(name, address, target string, faults []fault, converse func(*streamWire) conversation, t *tally) (*streamWire, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	w := &streamWire{
		wire: wire{name: name, faults: faults}, target: target, listener: listener, converse: converse, t: t,
		conns: map[net.Conn]bool{},
	}
	go w.accept()
	return w, nil
}

func (w *streamWire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.conns {
		reset(conn)
	}
}

func (w *streamWire) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return // it was closed
		}
		go w.serve(conn)
	}
}

// hold notes a connection, to be closed with the wire.
func (w *streamWire) hold(conn net.Conn, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if held {
		w.conns[conn] = true
	} else {
		delete(w.conns, conn)
	}
}

// serve passes on what client and server say, until one of them hangs up.
func (w *streamWire) serve(client net.Conn) {
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
	c := w.converse(w)
	over := make(chan struct{}, 2)
	go func() { c.requests(client, server); over <- struct{}{} }()
	go func() { c.replies(server, client); over <- struct{}{} }()
	<-over
}

// weather holds a piece of a stream up as the fault of the moment says; false: it is
// to be cut. An idle connection is cut when it is used next.
func (w *streamWire) weather(begun bool) bool {
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
