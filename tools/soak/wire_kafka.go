package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// openKafkaWire listens at an address for a broker at another. To its clients it is
// the broker: they learn this address where the broker tells its own.
func openKafkaWire(address, target string, t *tally) (*streamWire, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil, err
	}
	faults := []fault{faultLatency, faultReset, faultHole, faultLost, faultTorn}
	return openStreamWire("Kafka", address, target, faults, func(w *streamWire) conversation {
		return &kafkaConversation{wire: w, host: host, port: int32(port), open: map[uint32]question{}}
	}, t)
}

// kafkaConversation follows the protocol as far as it has to for knowing which request
// a reply is for.
type kafkaConversation struct {
	wire *streamWire
	host string
	port int32

	mu   sync.Mutex
	open map[uint32]question // by correlation id, those without a reply
}

// question is what a reply depends on.
type question struct {
	key, version int16
	lost         bool // the reply is not to arrive
}

// requests passes on what the client says.
func (c *kafkaConversation) requests(from io.Reader, to io.Writer) {
	for {
		raw, err := readFrame(from, 8)
		if err != nil || !c.wire.weather(true) {
			return
		}
		q := question{key: int16(binary.BigEndian.Uint16(raw[4:])), version: int16(binary.BigEndian.Uint16(raw[6:]))}
		if kmsg.Key(q.key) == kmsg.OffsetCommit && c.wire.now().fault == faultLost && rand.IntN(100) < hitShare {
			c.wire.t.count(groupLost, "Kafka: of commits of offsets", 1)
			q.lost = true
		}
		c.mu.Lock()
		c.open[binary.BigEndian.Uint32(raw[8:])] = q
		c.mu.Unlock()
		if _, err := to.Write(raw); err != nil {
			return
		}
	}
}

// replies passes on what the broker says, or a part of it.
func (c *kafkaConversation) replies(from io.Reader, to io.Writer) {
	for {
		raw, err := readFrame(from, 4)
		if err != nil {
			return
		}
		id := binary.BigEndian.Uint32(raw[4:])
		c.mu.Lock()
		q := c.open[id]
		delete(c.open, id)
		c.mu.Unlock()
		if q.lost || !c.wire.weather(true) {
			return
		}
		if raw, err = c.moved(q, raw); err != nil {
			c.wire.t.discrepancy("the wire to Kafka does not understand a reply: %v", err)
			return
		}
		if c.wire.now().fault == faultTorn && rand.IntN(100) < hitShare {
			_, _ = to.Write(raw[:rand.IntN(len(raw))])
			return
		}
		if _, err := to.Write(raw); err != nil {
			return
		}
	}
}

// moved is a reply in which the wire's address replaces the broker's.
func (c *kafkaConversation) moved(q question, raw []byte) ([]byte, error) {
	if kmsg.Key(q.key) != kmsg.Metadata && kmsg.Key(q.key) != kmsg.FindCoordinator {
		return raw, nil
	}
	reply := kmsg.ResponseForKey(q.key)
	reply.SetVersion(q.version)
	head := 8 // the size and the correlation id
	if reply.IsFlexible() {
		head++ // no tags
	}
	if err := reply.ReadFrom(raw[head:]); err != nil {
		return nil, err
	}
	switch reply := reply.(type) {
	case *kmsg.MetadataResponse:
		for i := range reply.Brokers {
			reply.Brokers[i].Host, reply.Brokers[i].Port = c.host, c.port
		}
	case *kmsg.FindCoordinatorResponse:
		reply.Host, reply.Port = c.host, c.port
		for i := range reply.Coordinators {
			reply.Coordinators[i].Host, reply.Coordinators[i].Port = c.host, c.port
		}
	}
	out := reply.AppendTo(raw[:head:head])
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// readFrame reads one message with its size before it, of at least so many bytes.
func readFrame(from io.Reader, least uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < least || size > mostMessage {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	raw := append(head[:], make([]byte, size)...)
	_, err := io.ReadFull(from, raw[4:])
	return raw, err
}
