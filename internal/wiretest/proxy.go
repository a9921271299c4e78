// Package wiretest puts wires that can be made to fail between smelt and the
// services that it uses. It is for tests alone.
//
// A [Proxy] is a wire for any of them: it knows bytes and connections. A
// [Gateway] speaks HTTP, and so can answer in S3's place, or lose its answer.
package wiretest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is what is wrong with a wire. The zero value is a wire in order.
type Fault struct {
	Latency   time.Duration             // every piece of a request or a reply takes so long
	Reset     bool                      // connections are reset, new ones too
	Silent    bool                      // nothing passes in either direction: new connections are accepted and never answered
	Forget    bool                      // with Silent: connections that were silent stay so when the fault is over
	CutReply  int64                     // bytes of replies after which a connection is reset
	LoseReply func(request []byte) bool // a request is carried out, but its connection reset before the reply comes
}

// Proxy is a wire to a service.
type Proxy struct {
	listener net.Listener
	target   string
	hits     atomic.Int64
	running  sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed when the fault is another one
	links   map[*link]bool
	closed  bool
}

// NewProxy opens a wire to the service at target, host:port. It is in order, and
// closed when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, changed: make(chan struct{}), links: map[*link]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Address is where the wire begins, host:port.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Set makes a fault begin; Set(Fault{}) ends it.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		if f.Reset {
			l.reset()
		}
		if !f.Silent && l.forgotten.Load() {
			l.server.Close() // which has given it up by now
		}
	}
}

// Hits is how often a fault has been in the way, but for latency.
func (p *Proxy) Hits() int64 { return p.hits.Load() }

// Advertised is the service's listener with the wire's beginning as its address:
// for a broker, which tells its clients where it is.
func (p *Proxy) Advertised(l net.Listener) net.Listener { return advertised{l, p.listener.Addr()} }

type advertised struct {
	net.Listener
	address net.Addr
}

func (a advertised) Addr() net.Addr { return a.address }

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve carries one connection's bytes.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, done: make(chan struct{})}
	defer l.close()
	if !p.add(l) {
		return
	}
	defer p.remove(l)
	var replies sync.WaitGroup
	replies.Go(func() { l.pump(server, client, l.reply) })
	l.pump(client, server, l.request)
	replies.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = true
	if p.fault.Reset {
		p.hits.Add(1)
		l.reset()
	}
	return !p.closed
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) state() (f Fault, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// link is one connection through a proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	done           chan struct{} // closed with the link
	once           sync.Once
	forgotten      atomic.Bool
	losing         atomic.Bool // the next reply will be lost
	replied        int64       // bytes of replies that have passed
}

// pump carries what comes from src, as long as pass says so.
func (l *link) pump(src, dst net.Conn, pass func(Fault, []byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		// The end of a connection does not pass a silent wire either.
		f, open := l.wait()
		if !open {
			return
		}
		if l.forgotten.Load() {
			if src == l.server {
				return // the client is left alone with its connection
			}
			n = 0
		}
		if n > 0 {
			if !pass(f, buffer[:n]) {
				l.proxy.hits.Add(1)
				l.reset()
				return
			}
			if _, err := dst.Write(buffer[:n]); err != nil {
				l.close()
				return
			}
		}
		if err != nil {
			l.close()
			return
		}
	}
}

// wait waits while the wire is silent or slow. It returns false when the link has
// been closed meanwhile.
func (l *link) wait() (f Fault, open bool) {
	f, changed := l.proxy.state()
	for f.Silent {
		l.proxy.hits.Add(1)
		if f.Forget {
			l.forgotten.Store(true)
		}
		select {
		case <-changed:
		case <-l.done:
			return f, false
		}
		f, changed = l.proxy.state()
	}
	slow := time.NewTimer(f.Latency)
	defer slow.Stop()
	select {
	case <-slow.C:
		return f, true
	case <-l.done:
		return f, false
	}
}

func (l *link) request(f Fault, piece []byte) bool {
	if f.LoseReply != nil && f.LoseReply(piece) {
		l.losing.Store(true)
	}
	return true
}

func (l *link) reply(f Fault, piece []byte) bool {
	l.replied += int64(len(piece))
	return !l.losing.Load() && (f.CutReply == 0 || l.replied <= f.CutReply)
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.done)
		l.client.Close()
		l.server.Close()
	})
}

// reset ends the client's connection with RST.
func (l *link) reset() {
	if tcp, ok := l.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	l.close()
}
