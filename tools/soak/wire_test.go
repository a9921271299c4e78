package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// blowing sets the weather on a wire.
func blowing(w *wire, f fault) *spell {
	s := &spell{fault: f, over: make(chan struct{})}
	w.current.Store(s)
	return s
}

// TestS3Wire sends requests until the fault has hit one.
func TestS3Wire(t *testing.T) {
	t.Parallel()
	const whole = 10_000
	for _, tt := range []struct {
		fault   fault
		method  string
		hit     func(status, bytes int, err error) bool
		arrived bool // the server got what was hit
	}{
		{faultReset, "GET", func(_, _ int, err error) bool { return err != nil }, false},
		{faultBusy, "PUT", func(status, _ int, _ error) bool { return status == 503 || status == 429 }, false},
		{faultLost, "PUT", func(_, _ int, err error) bool { return err != nil }, true},
		{faultTorn, "GET", func(status, bytes int, err error) bool { return status == 200 && err != nil && bytes < whole }, true},
	} {
		t.Run(string(tt.fault), func(t *testing.T) {
			t.Parallel()
			var arrived atomic.Int64
			var host atomic.Value
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				arrived.Add(1)
				host.Store(r.Host)
				_, _ = io.WriteString(w, strings.Repeat("x", whole))
			}))
			defer server.Close()
			w, address := openTestS3Wire(t, strings.TrimPrefix(server.URL, "http://"))
			if status, bytes, err := request(tt.method, address); status != 200 || bytes != whole || err != nil || host.Load() != address {
				t.Fatalf("in calm weather: got %d, %d bytes, %v, for host %v", status, bytes, err, host.Load())
			}
			blowing(&w.wire, tt.fault)
			for range 200 {
				before := arrived.Load()
				if status, bytes, err := request(tt.method, address); tt.hit(status, bytes, err) {
					if got := arrived.Load() > before; got != tt.arrived {
						t.Errorf("the server got it: %v, want %v", got, tt.arrived)
					}
					return
				}
			}
			t.Error("of 200 requests none was hit")
		})
	}
}

func TestS3WireHole(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	w, address := openTestS3Wire(t, strings.TrimPrefix(server.URL, "http://"))
	s := blowing(&w.wire, faultHole)
	ended := make(chan error, 1)
	go func() { _, _, err := request("GET", address); ended <- err }()
	select {
	case err := <-ended:
		t.Fatalf("a request came out of the hole: %v", err)
	case <-time.After(20 * time.Millisecond): // no longer can be waited for what is not to happen
	}
	close(s.over)
	if err := <-ended; err == nil {
		t.Error("the request got an answer after the hole")
	}
}

func openTestS3Wire(t *testing.T, target string) (*s3Wire, string) {
	t.Helper()
	address, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	w, err := openS3Wire(address[0], target, newTally(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w, address[0]
}

// request sends one on a connection of its own, so that no client repeats it.
func request(method, address string) (status, bytes int, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequest(method, "http://"+address+"/key", nil)
	if err != nil {
		return 0, 0, err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, len(body), err
}

// message writes one of PostgreSQL's protocol.
func message(kind byte, body string) []byte {
	var out []byte
	if kind != 0 {
		out = append(out, kind)
	}
	return append(binary.BigEndian.AppendUint32(out, uint32(4+len(body))), body...)
}

// TestPostgresWireLosesTheReplyToASwap talks to a server that answers each query with
// a completion and that it is ready.
func TestPostgresWireLosesTheReplyToASwap(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	bound := make(chan string, 1000)
	go serveCompletions(listener, bound)
	address, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	w, err := openPostgresWire(address[0], listener.Addr().String(), newTally(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	blowing(&w.wire, faultLost)
	lost := 0
	for range 200 {
		swapped, err := swap(address[0], "UPDATE iceberg_tables SET metadata_location = $4", bound)
		if !swapped {
			t.Fatalf("the server did not get a swap: %v", err)
		}
		if err != nil {
			lost++
		}
		if _, err := swap(address[0], "SELECT metadata_location FROM iceberg_tables", bound); err != nil {
			t.Fatalf("the reply to a query was lost: %v", err)
		}
	}
	if lost == 0 || lost == 200 {
		t.Errorf("of 200 swaps the reply to %d was lost", lost)
	}
}

// serveCompletions serves connections, and tells which statements were bound.
func serveCompletions(listener net.Listener, bound chan<- string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for typed := false; ; typed = true {
				kind, body, _, err := readMessage(in, typed)
				if err != nil {
					return
				}
				if kind == 'B' {
					bound <- string(body)
				}
				if !typed || kind == 'S' {
					_, _ = conn.Write(append(message('C', "DONE\x00"), message('Z', "I")...))
				}
			}
		}()
	}
}

// swap prepares a statement and runs it, on a connection of its own.
func swap(address, statement string, bound <-chan string) (arrived bool, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, request := range [][]byte{
		message(0, "\x00\x03\x00\x00user\x00smelt\x00\x00"),
		append(message('P', "name\x00"+statement+"\x00\x00\x00"), message('S', "")...),
		append(append(message('B', "\x00name\x00\x00\x00"), message('E', "\x00\x00\x00\x00\x00")...), message('S', "")...),
	} {
		if _, err := conn.Write(request); err != nil {
			return false, err
		}
		for kind := byte(0); kind != 'Z'; {
			if kind, _, _, err = readMessage(in, true); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	select {
	case <-bound:
		return true, err
	case <-time.After(10 * time.Second):
		return false, err
	}
}

// TestKafkaWire has a client that knows of one address only: the wire's.
func TestKafkaWire(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "topic"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	address, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	told := newTally(io.Discard)
	w, err := openKafkaWire(address[0], broker.ListenAddrs()[0], told)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address[0]),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }),
		kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			if host != address[0] {
				t.Errorf("the client goes past the wire, to %s", host)
			}
			return new(net.Dialer).DialContext(ctx, network, host)
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: "topic", Value: []byte("value")}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(client)
	for _, f := range []fault{faultLost, faultTorn} {
		blowing(&w.wire, f)
		for at := range int64(100) {
			offsets := kadm.Offsets{}
			offsets.AddOffset("topic", 0, at, -1)
			if err := admin.CommitAllOffsets(t.Context(), "group", offsets); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
		}
	}
	if told.total(groupLost) == 0 {
		t.Error("of 100 commits the reply to none was lost")
	}
	blowing(&w.wire, faultNone)
	got, err := admin.FetchOffsets(t.Context(), "group")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := got.Lookup("topic", 0); o.At != 99 || told.wrong > 0 {
		t.Errorf("the group is at %d, want 99; %d replies were not understood", o.At, told.wrong)
	}
}
