package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"
)

// watchEvery is how often what runs is looked at.
const watchEvery = 2 * time.Second

// upkeep matches a metric such as smelt_maintenance_jobs_total{kind="merge",outcome="done",table="…"} 3.
var upkeep = regexp.MustCompile(`^smelt_maintenance_jobs_total\{kind="([^"]+)",outcome="([^"]+)",table="[^"]+"\} ([0-9.e+]+)$`)

// watch notes, until ctx ends, how much memory processes take and what maintenance
// they have done. What one has done within its last seconds is missed.
func watch(ctx context.Context, f *fleet) {
	seen := map[string]int{} // by life, kind and outcome
	for sleep(ctx, watchEvery) {
		f.t.used("the soak itself, with its wires", os.Getpid())
		stack, runs := f.running()
		if stack != nil {
			f.t.used("the stack, without PostgreSQL", stack.pid)
		}
		for _, p := range runs {
			f.t.used("the pipeline processes", p.pid)
			done, err := jobs(ctx, f.httpOf(p))
			if err != nil {
				continue // it is starting, or stopped, or gone
			}
			for kind, n := range done {
				life := strconv.Itoa(p.pid) + " " + kind
				if n > seen[life] {
					f.t.count(groupUpkeep, kind, n-seen[life])
					seen[life] = n
				}
			}
		}
	}
}

// jobs asks an instance for the pieces of maintenance that it has done, by kind and
// outcome.
func jobs(ctx context.Context, address string) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	out := map[string]int{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if m := upkeep.FindStringSubmatch(lines.Text()); m != nil {
			n, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				return nil, err
			}
			out[m[1]+": "+m[2]] += int(n)
		}
	}
	return out, lines.Err()
}
