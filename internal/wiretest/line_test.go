package wiretest_test

import (
	"bytes"
	"flag"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"smelt/internal/wiretest"
)

var partition = flag.Duration("wire.partition", 0, "cut each service off for so long, too: a minute of test for 30s")

// TestLine breaks the wires between a line and its services, one fault after another, while events come in. After each fault
// everything recovers. At the end every record is counted.
//
//	go test -run TestLine -wire.partition=30s -v ./internal/wiretest
func TestLine(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]func(*world) []fault{"kafka": kafkaFaults, "s3": s3Faults, "postgres": postgresFaults} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name)
			w.send(t, 10)
			w.through(t, "before any fault")
			for _, f := range faults(w) {
				w.suffer(t, f)
			}
			w.verify(t)
		})
	}
}

// fault is one thing that goes wrong on a wire.
type fault struct {
	name  string
	begin func()
	hits  func() int64  // how often it has been in the way
	lasts time.Duration // at least
	says  string        // what the line says meanwhile; empty: it need not notice
	end   func()
}

// suffer lets a fault happen, and waits until the line has got over it.
func (w *world) suffer(t *testing.T, f fault) {
	t.Helper()
	hits := f.hits()
	began := time.Now()
	f.begin()
	w.send(t, 20)
	eventually(t, time.Minute, f.name+" is in the way", func() (bool, string) { return f.hits() > hits, "it is not" })
	if f.says != "" {
		took := eventually(t, 2*time.Minute, f.name+" is told", func() (bool, string) {
			ready, said := w.readiness(t)
			return !ready && strings.Contains(said, f.says), said
		})
		_, said := w.readiness(t)
		t.Logf("%s: told after %s:\n%s", f.name, took.Round(100*time.Millisecond), said)
	}
	time.Sleep(f.lasts - time.Since(began)) // the fault's own length
	w.send(t, 20)
	f.end()
	t.Logf("%s: all through %s after its end", f.name, w.through(t, f.name).Round(100*time.Millisecond))
	eventually(t, time.Minute, "ready after "+f.name, func() (bool, string) { return w.readiness(t) })
}

// verify counts every record of the lake, row by row, which reads every file that
// a snapshot refers to.
func (w *world) verify(t *testing.T) {
	t.Helper()
	verdict, err := w.verifier.Verify(t.Context(), w.pipeline)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range verdict.Mismatches {
		t.Error(m.Message)
	}
	if verdict.Bronze != int64(w.sent) {
		t.Errorf("%d records were sent, bronze has %d", w.sent, verdict.Bronze)
	}
	t.Log(verdict)
}

// wireFaults are those that any wire has.
func wireFaults(p *wiretest.Proxy, at string) []fault {
	on := func(f wiretest.Fault) func() { return func() { p.Set(f) } }
	off := func() { p.Set(wiretest.Fault{}) }
	var always int64
	faults := []fault{
		{name: "silence", begin: on(wiretest.Fault{Silent: true}), hits: p.Hits, lasts: time.Second, end: off},
		{name: "resets", begin: on(wiretest.Fault{Reset: true}), hits: p.Hits, end: off},
		{name: "replies cut", begin: on(wiretest.Fault{CutReply: 300}), hits: p.Hits, end: off},
	}
	if *partition > 0 {
		faults = append(faults,
			fault{name: "latency", begin: on(wiretest.Fault{Latency: 100 * time.Millisecond}), hits: func() int64 { always++; return always }, end: off}, // it is in the way of all
			fault{name: "partition", begin: on(wiretest.Fault{Silent: true}), hits: p.Hits, lasts: *partition, says: at, end: off},
			fault{name: "partition that ends connections", begin: on(wiretest.Fault{Silent: true, Forget: true}), hits: p.Hits, lasts: *partition, says: at, end: off},
			fault{name: "nobody there", begin: on(wiretest.Fault{Reset: true}), hits: p.Hits, lasts: *partition, says: at, end: off},
		)
	}
	return faults
}

func kafkaFaults(w *world) []fault { return wireFaults(w.kafka, w.kafka.Address()) }

func s3Faults(w *world) []fault {
	on := func(a wiretest.Answer) func() { return func() { w.gateway.Set(a) } }
	off := func() { w.gateway.Set(nil) }
	put := func(part string) func(*http.Request) bool {
		var lost atomic.Int64
		return func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, part) && lost.Add(1) <= 3
		}
	}
	get := func(part string) func(*http.Request) bool {
		var cut atomic.Int64
		return func(r *http.Request) bool {
			return r.Method == http.MethodGet && strings.Contains(r.URL.Path, part) && cut.Add(1) <= 3
		}
	}
	return append(wireFaults(w.s3, w.s3.Address()),
		fault{name: "503", begin: on(wiretest.Refuse(503, "SlowDown", time.Second)), hits: w.gateway.Hits, says: "SlowDown", end: off},
		fault{name: "429", begin: on(wiretest.Refuse(429, "TooManyRequests", 0)), hits: w.gateway.Hits, says: "TooManyRequests", end: off},
		fault{name: "reply of a conditional put lost", begin: on(wiretest.LoseReply(put("/bronze/"))), hits: w.gateway.Hits, end: off},
		fault{name: "reply of a data file's put lost", begin: on(wiretest.LoseReply(put("/data/"))), hits: w.gateway.Hits, end: off},
		fault{name: "reply of a metadata file's put lost", begin: on(wiretest.LoseReply(put(".metadata.json"))), hits: w.gateway.Hits, end: off},
		fault{name: "bodies of bronze cut", begin: on(wiretest.CutBody(get("/bronze/"))), hits: w.gateway.Hits, end: off},
	)
}

func postgresFaults(w *world) []fault {
	var lost atomic.Int64
	swap := func(request []byte) bool { // it alone has the place of a metadata file among its arguments
		return bytes.Contains(request, []byte(".metadata.json")) && lost.Add(1) <= 3
	}
	return append(wireFaults(w.postgres, w.postgres.Address()), fault{
		name:  "reply of a commit lost",
		begin: func() { w.postgres.Set(wiretest.Fault{LoseReply: swap}) },
		hits:  w.postgres.Hits,
		end:   func() { w.postgres.Set(wiretest.Fault{}) },
	})
}
