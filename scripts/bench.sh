#!/usr/bin/env bash
# Measures smelt on a stack of its own.
#   scripts/bench.sh drain [N]   N readings (2,000,000) wait in Kafka, in 4 partitions, until they are in gold
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
	sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 20000))
		if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
}

# stack starts the embedded services in a new state folder, and ends them with the script.
stack() {
	SMELT_HOME=$(mktemp -d "${TMPDIR:-/tmp}/smelt-bench.XXXXXX")
	chmod 755 "$SMELT_HOME"
	SMELT_KAFKA_PORT=$(free_port) SMELT_S3_PORT=$(free_port) SMELT_CONSOLE_PORT=$(free_port) SMELT_POSTGRES_PORT=$(free_port)
	export SMELT_HOME SMELT_KAFKA_PORT SMELT_S3_PORT SMELT_CONSOLE_PORT SMELT_POSTGRES_PORT
	trap end EXIT
	"$root/bin/smelt" stack >"$SMELT_HOME/stack.out" 2>"$SMELT_HOME/stack.log" &
	until [ -s "$SMELT_HOME/stack.out" ]; do
		kill -0 $! 2>/dev/null || { tail "$SMELT_HOME/stack.log" >&2; exit 1; }
		sleep 0.2
	done
}

end() {
	"$root/bin/smelt" reset --yes >/dev/null 2>&1 || true
	rm -rf "$SMELT_HOME"
}

drain() {
	local n=${1:-2000000}
	case $n in '' | *[!0-9]*) usage ;; esac
	echo "-- $n readings in 4 partitions; all stages at once, as in production"
	stack
	"$root/bin/smelt" bench fill "$n"
	"$root/bin/smelt" bench drain 2>"$SMELT_HOME/drain.log" || { tail -n 3 "$SMELT_HOME/drain.log" >&2; exit 1; }
	"$root/bin/smelt" verify
	end
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
