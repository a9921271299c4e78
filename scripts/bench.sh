#!/usr/bin/env bash
# Measures smelt on a stack of its own.
#   scripts/bench.sh drain [fleet|sensors] [N]      N events (2,000,000) wait in Kafka, in 4 partitions, until they are in gold
#   scripts/bench.sh idle [RATE] [SECONDS]          what smelt run costs while RATE events a second come (0, 10 and 1,000 in turn)
#   scripts/bench.sh freshness [SECONDS] [--freshness D]    how long an event takes to gold, at 1,000 a second; D is smelt run's
#   scripts/bench.sh backfill [N]                   N readings (1,000,000) of history are corrected under a stream of 1,000 a second
#   scripts/bench.sh commits [N]                    N commits (5,000) to one table, with maintenance as it comes in a stream
#   scripts/bench.sh amplification                  how often compaction writes rows again: a day of an event a second, and a drain
#   scripts/bench.sh gold-cost [HOURS...]           a refresh of gold after one new minute, with so much history (1, 10, 100, 1000)
#   scripts/bench.sh peers [N]                      smelt, Kafka Connect, Spark and DuckDB take N events (2,000,000) from one topic, in turn
#   scripts/bench.sh docs                           makes docs/benchmarks.md of bench/results
# With --runs N each runs N times; the medians, with their spread, become a file of bench/results and a part of docs/benchmarks.md.
# A bench NAME may also be scripts/bench/NAME.sh: it is sourced, and defines a function NAME, with - as _, like those here.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$root/scripts/demo.sh"

results=$root/bench/results

usage() {
	sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

# count refuses what is no number.
count() { case $1 in '' | *[!0-9]*) usage ;; esac }

smelt() { "$root/bin/smelt-bench" "$@"; }

# measure runs a command of smelt bench; what it logs is shown when it fails.
measure() {
	smelt bench --samples "$samples" "$@" 2>"$SMELT_HOME/bench.log" || { tail -n 3 "$SMELT_HOME/bench.log" >&2; exit 1; }
}

# stack starts the embedded services, on a lake of its own, in place of the one before.
stack() {
	[ "$SMELT_HOME" = "$kept" ] || leave_lake
	own_lake bench
	smelt stack >"$SMELT_HOME/stack.out" 2>"$SMELT_HOME/stack.log" &
	until [ -s "$SMELT_HOME/stack.out" ]; do
		kill -0 $! 2>/dev/null || { tail "$SMELT_HOME/stack.log" >&2; exit 1; }
		sleep 0.2
	done
}

# docs makes the page of all results.
docs() { smelt bench docs "$results" "$root/docs/benchmarks.md"; }

# grouped writes a number as 2,000,000.
grouped() { sed ':again; s/\B[0-9]\{3\}\>/,&/; t again' <<<"$1"; }

# alive says whether the pipeline answers.
alive() { smelt status --json 2>/dev/null | grep -q '"running":true'; }

# run starts the pipelines in the background.
run() {
	smelt run "$@" 2>"$SMELT_HOME/run.log" &
	until alive; do
		kill -0 $! 2>/dev/null || { tail -n 3 "$SMELT_HOME/run.log" >&2; exit 1; }
		sleep 0.5
	done
}

# Each bench is a function of its name: one run, on its arguments. It records its figures (measure), and says what its
# result is called and what it is about. A bench that measures other programs adds their versions.

drain() {
	local what=sensors n how
	case ${1:-} in fleet | sensors) what=$1 && shift ;; esac
	n=${1:-2000000}
	count "$n"
	result=drain-$what
	about="$(grouped "$n") events wait in 4 partitions of a topic. They go to bronze, silver and gold: first with all stages at once, as in \`smelt run\` without
maintenance; then, with a new stack, stage by stage. After each, every row is counted."
	case $what in
	fleet)
		export SMELT_PIPELINES=$root/bench/pipelines
		about+=" The events are vehicles' telemetry, of about 182 bytes, in the order of their times. One in
20 is a duplicate, of an event of the six minutes before. Silver has 12 partitions a day and an exact
key; gold has a row a vehicle, metric and minute."
		;;
	sensors)
		about+=" The events are temperature readings, of about 95 bytes; one in 200 is malformed. Silver looks each sensor's place up in a reference
table; gold has a row a city and hour."
		;;
	esac
	for how in '' --stepwise; do
		stack
		smelt bench fill "$n"
		measure drain ${how:+"$how"}
		[ -n "$how" ] || smelt verify
	done
}

idle() {
	local rates=${1:-0 10 1000} seconds=${2:-60} rate
	count "${rates// /}" && count "$seconds"
	result=idle
	about="\`smelt run\` with its defaults, on the pipeline that ships, while readings come at a steady rate: its CPU over $seconds seconds, after 30 seconds
of warm-up. 100 % is one core."
	for rate in $rates; do
		stack
		smelt bench fill 1000
		run
		[ "$rate" = 0 ] || smelt generate --rate "$rate" 2>"$SMELT_HOME/generate.log" &
		measure idle "$rate" --for "${seconds}s"
	done
}

freshness() {
	local seconds=${1:-600}
	count "$seconds"
	result=freshness${fresh:+-$fresh}
	about="1,000 readings a second come in while \`smelt run${fresh:+ --freshness $fresh}\` works, for $seconds seconds. For each of them: the time from the
event to the first commit of gold that has it. A commit's time is taken just before it is published, some 10 ms before others can read it."
	stack
	smelt bench fill 1000
	run ${fresh:+--freshness "$fresh"}
	smelt generate --rate 1000 --mess 0 2>"$SMELT_HOME/generate.log" &
	measure freshness --for "${seconds}s"
}

backfill() {
	local n=${1:-1000000} live
	count "$n"
	result=backfill
	about="$(grouped "$n") readings of the last 3 days are in gold, and 1,000 a second come in; one sensor of three was in the wrong city all the time. \`smelt backfill
--reference-changes\` corrects it; then \`--all\` replays all of history. The backfill's rate counts from its plan to its commit. Silver's rate is that of
the same history, without a stream and by itself."
	stack
	smelt bench fill "$n" --span 72h
	smelt bench --samples "$SMELT_HOME/drain.ndjson" drain --stepwise 2>"$SMELT_HOME/drain.log" || { tail -n 3 "$SMELT_HOME/drain.log" >&2; exit 1; }
	run
	smelt generate --rate 1000 2>"$SMELT_HOME/generate.log" &
	live=$!
	measure backfill --drain "$SMELT_HOME/drain.ndjson"
	kill "$live"
	wait "$live" || true
	smelt verify
}

commits() {
	local n=${1:-5000}
	count "$n"
	result=commits
	about="$(grouped "$n") commits of a file of 2 rows each to one table, with maintenance when it would come in a stream: are commits as quick at the end as at the
beginning?"
	stack
	measure commits "$n"
}

amplification() {
	result=amplification
	about="How often compaction writes rows again: a day of an event a second, in files of 2 rows; then 3,000,000 rows in files of 30,000. All go to a
partition that stays open."
	stack
	measure amplification 86400
	stack
	measure amplification 3000000 --each 30000 --every 4
}

gold_cost() {
	local hours=(1 10 100 1000)
	[ $# = 0 ] || hours=("$@")
	result=gold-cost
	about="What a refresh of gold costs after one new minute of 240 events, with more and more history. The events go to silver directly, a file a partition and
day; gold has a row a vehicle, metric and minute. Each figure is the median of 15 refreshes. A new minute touches two windows: the last one again, and a new one."
	export SMELT_PIPELINES=$root/bench/pipelines
	stack
	measure gold-cost "${hours[@]}"
}

# commit names what is measured.
commit() {
	local changes
	changes=$(git -C "$root" status --porcelain -- . ':!bench/results' ':!docs/benchmarks.md')
	echo "$(git -C "$root" rev-parse --short=12 HEAD)${changes:+ with changes}"
}

bench=${1:-} command="scripts/bench.sh $*" runs='' fresh='' result='' about='' versions=() arguments=()
[ -z "$bench" ] || shift
while [ $# -gt 0 ]; do
	case $1 in
	--runs) count "${2:-}" && runs=$2 && shift 2 ;;
	--freshness) fresh=${2:-} && shift 2 ;;
	*) arguments+=("$1") && shift ;;
	esac
done
build
(cd "$root" && CGO_ENABLED=1 go build -tags bench -o bin/smelt-bench ./cmd/smelt)
case $bench in
drain | idle | freshness | backfill | commits | amplification | gold-cost) ;;
docs)
	docs
	exit
	;;
*)
	[ -f "$root/scripts/bench/$bench.sh" ] || usage
	. "$root/scripts/bench/$bench.sh"
	;;
esac
measured=$(commit) # as it is built
samples=$kept/bench-$bench.ndjson # stays there when a run fails
mkdir -p "$kept"
rm -f "$samples"
for ((i = 1; i <= ${runs:-1}; i++)); do
	[ -z "$runs" ] || say "run $i of $runs"
	"${bench//-/_}" "${arguments[@]}"
done
if [ -n "$runs" ]; then
	smelt bench --samples "$samples" publish "$result" --about "$about" --command "$command" --commit "$measured" "${versions[@]}" --dir "$results"
	docs
fi
rm -f "$samples"
