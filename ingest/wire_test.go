package ingest_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"smelt"
	"smelt/ingest"
	"smelt/internal/wiretest"
)

// overWire starts a broker that its clients reach by way of a wire.
func overWire(t *testing.T) (ingest.Cluster, *wiretest.Proxy) {
	t.Helper()
	var wire *wiretest.Proxy
	newBroker(t, 1, kfake.ListenFn(func(network, at string) (net.Listener, error) {
		l, err := net.Listen(network, at)
		if err != nil {
			return nil, err
		}
		wire = wiretest.NewProxy(t, l.Addr().String())
		return wire.Advertised(l), nil
	}))
	return ingest.Cluster{Brokers: []string{wire.Address()}}, wire
}

// reads calls one function after another for what it reads.
type reads []func() string

func (r *reads) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	line := (*r)[0]()
	*r = (*r)[1:]
	return copy(p, line), nil
}

func TestProduceToSilence(t *testing.T) {
	t.Parallel()
	cluster, wire := overWire(t)
	input := reads{func() string {
		wire.Set(wiretest.Fault{Silent: true})
		return "a\n"
	}}
	n, err := ingest.ProduceWithin(deadline(t), cluster, topicName, &input, nil, 200*time.Millisecond)
	if n != 0 || !errors.Is(err, smelt.ErrSource) || !strings.Contains(err.Error(), "kafka on "+wire.Address()+": nothing was acknowledged for 200ms") {
		t.Errorf("produce: %d records and error %v, want one that says that nothing was acknowledged", n, err)
	}
}

// TestProduceSlowInput has the input come later than an acknowledgement may.
func TestProduceSlowInput(t *testing.T) {
	t.Parallel()
	cluster, _ := overWire(t)
	const within = 4 * time.Second // far above what an acknowledgement takes on a busy machine
	input := reads{func() string { return "a\n" }, func() string {
		time.Sleep(within + within/4) // the input's own time
		return "b\n"
	}}
	if n, err := ingest.ProduceWithin(deadline(t), cluster, topicName, &input, nil, within); err != nil || n != 2 {
		t.Errorf("produce: %d records and error %v, want 2", n, err)
	}
}

// TestSilentCluster opens a source on a cluster that accepts connections and never
// answers.
func TestSilentCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a silent cluster has fifteen seconds")
	}
	cluster, wire := overWire(t)
	wire.Set(wiretest.Fault{Silent: true})
	err := cluster.Check(deadline(t), topicName)
	if !errors.Is(err, smelt.ErrSource) || !strings.Contains(err.Error(), "kafka on "+wire.Address()) || !strings.Contains(err.Error(), "no answer within 15s") {
		t.Errorf("check: %v, want an error that says where, and that nobody answers", err)
	}
}
