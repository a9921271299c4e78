// Command soak lets a lake run under load for a while, and meanwhile kills what runs
// it, breaks its connections and corrects its history, all by a seed. At the end
// it compares every layer with the truth: what the topics hold, and what this
// program, which shares no code with smelt, makes of it. scripts/soak.sh runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	lasting    time.Duration
	seed       uint64
	binary     string
	extensions string
	dir        string
	report     string
	commit     string
}

func main() {
	var o options
	var minutes float64
	flag.Float64Var(&minutes, "minutes", 30, "how long")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of all random choices; 0 draws one")
	flag.StringVar(&o.binary, "smelt", "bin/smelt", "the program")
	flag.StringVar(&o.extensions, "extensions", "", "a folder with DuckDB's extensions")
	flag.StringVar(&o.dir, "dir", "", "an empty folder for all state; it is deleted at the end, unless something is wrong")
	flag.StringVar(&o.report, "report", "", "a file to write the report to, as markdown")
	flag.StringVar(&o.commit, "commit", "unknown", "what was built, for the report")
	flag.Parse()
	o.lasting = time.Duration(minutes * float64(time.Minute))
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends it at once, and with it all that it has started
	err := run(ctx, o, os.Stdout)
	switch {
	case err == nil:
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(os.Stderr, "soak: interrupted")
		os.Exit(130)
	case errors.Is(err, errDiscrepancies):
		fmt.Fprintf(os.Stderr, "soak: %v; state and logs are in %s\n", err, o.dir)
		os.Exit(1)
	default:
		fmt.Fprintf(os.Stderr, "soak: %v; state and logs are in %s\n", err, o.dir)
		os.Exit(2)
	}
}
