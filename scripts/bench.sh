#!/usr/bin/env bash
# Measures smelt on a stack of its own.
#   scripts/bench.sh drain [N]   N readings (2,000,000) wait in Kafka, in 4 partitions, until they are in gold
#   scripts/bench.sh backfill [N]   N readings (1,000,000) of history are corrected under a stream of 1,000 a second
#   scripts/bench.sh commits [N]    N commits (5,000) to one table, with maintenance as it comes in a stream
#   scripts/bench.sh amplification  how often compaction writes rows again: a day of an event a second, and a drain
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$root/scripts/demo.sh"

usage() {
	sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

# stack starts the embedded services, on a lake of its own.
stack() {
	own_lake bench
	"$root/bin/smelt" stack >"$SMELT_HOME/stack.out" 2>"$SMELT_HOME/stack.log" &
	until [ -s "$SMELT_HOME/stack.out" ]; do
		kill -0 $! 2>/dev/null || { tail "$SMELT_HOME/stack.log" >&2; exit 1; }
		sleep 0.2
	done
}

drain() {
	local n=${1:-2000000}
	case $n in '' | *[!0-9]*) usage ;; esac
	echo "-- $n readings in 4 partitions; all stages at once, as in production"
	stack
	"$root/bin/smelt" bench fill "$n"
	"$root/bin/smelt" bench drain 2>"$SMELT_HOME/drain.log" || { tail -n 3 "$SMELT_HOME/drain.log" >&2; exit 1; }
	"$root/bin/smelt" verify
	leave_lake
	echo "-- the same, stage by stage"
	stack
	"$root/bin/smelt" bench fill "$n"
	"$root/bin/smelt" bench drain --stepwise 2>"$SMELT_HOME/drain.log" || { tail -n 3 "$SMELT_HOME/drain.log" >&2; exit 1; }
}

# alive says whether the pipeline answers.
alive() { "$root/bin/smelt" status --json 2>/dev/null | grep -q '"running":true'; }

backfill() {
	local n=${1:-1000000} live
	case $n in '' | *[!0-9]*) usage ;; esac
	echo "-- $n readings of the last 3 days, then 1,000 a second; hel-001 was in the wrong city all the time"
	stack
	"$root/bin/smelt" bench fill "$n" --span 72h
	"$root/bin/smelt" bench drain 2>"$SMELT_HOME/drain.log" || { tail -n 3 "$SMELT_HOME/drain.log" >&2; exit 1; }
	"$root/bin/smelt" run 2>"$SMELT_HOME/run.log" &
	"$root/bin/smelt" generate --rate 1000 2>"$SMELT_HOME/generate.log" &
	live=$!
	await alive || { tail -n 3 "$SMELT_HOME/run.log" >&2; exit 1; }
	"$root/bin/smelt" bench backfill 2>"$SMELT_HOME/backfill.log" || { tail -n 3 "$SMELT_HOME/backfill.log" >&2; exit 1; }
	kill "$live"
	wait "$live" || true
	"$root/bin/smelt" verify
}

commits() {
	local n=${1:-5000}
	case $n in '' | *[!0-9]*) usage ;; esac
	echo "-- are commits as quick at the end as at the beginning?"
	stack
	"$root/bin/smelt" bench commits "$n"
}

amplification() {
	echo "-- a day of an event a second, in files of two rows"
	stack
	"$root/bin/smelt" bench amplification 86400
	leave_lake
	echo "-- a drain: files of 30,000 rows"
	stack
	"$root/bin/smelt" bench amplification 3000000 --each 30000 --every 4
}

build
case ${1:-} in
commits) commits "${2:-}" ;;
amplification) amplification ;;
drain) drain "${2:-}" ;;
backfill) backfill "${2:-}" ;;
*) usage ;;
esac
