#!/usr/bin/env bash
# Measures smelt on a stack of its own.
#   scripts/bench.sh drain [N]   N readings (2,000,000) wait in Kafka, in 4 partitions, until they are in gold
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

build
case ${1:-} in
drain) drain "${2:-}" ;;
*) usage ;;
esac
