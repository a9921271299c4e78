#!/usr/bin/env bash
# Reads a lake with engines that are not smelt's, and compares what they see with what the shell says.
#   scripts/interop.sh pyiceberg   silver, quarantine and gold, through the SQL catalog
# Where something that it needs cannot be had it says "skipped", and why.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$root/scripts/demo.sh"

usage() {
	sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

skip() {
	echo "skipped: $*"
	exit 0
}

# demo_lake makes a lake that holds the demo's readings, 500 of a day long past and a few that are rejected, and that
# nothing writes to any more: only its services still run.
demo_lake() {
	build
	own_lake interop
	say "a lake of its own"
	"$root/scripts/start.sh" | tail -n 2
	{
		local i
		for i in $(seq 0 499); do
			printf '{"sensor_id":"interop-001","temperature":%d,"unit":"C","event_time":"2026-01-01T%02d:00:00Z"}\n' "$((i % 40))" "$((i % 24))"
		done
		for i in $(seq 0 4); do
			printf '{"sensor_id":"interop-001","temperature":"%d","unit":"C","event_time":"2026-01-01T00:00:00Z"}\n' "$i"
		done
	} | "$root/bin/smelt" produce --topic sensor.readings
	await arrived || { echo "500 records did not arrive in gold, and 5 in quarantine, within a minute" >&2; exit 1; }
	say "the generator and the pipeline stop: from here on the counts stand still"
	halt generate
	halt run
}

arrived() {
	[ "$(query "SELECT sum(readings) FROM gold WHERE hour < '2026-01-02'")" = 500 ] &&
		[ "$(query "SELECT count(*) FROM quarantine.sensors WHERE raw LIKE '%interop-001%'")" = 5 ]
}

# halt ends a command of smelt that runs in the background, as a signal would: the pipeline drains.
halt() {
	kill "$(pid "$1")"
	await ended "$1" || { echo "smelt $1 did not stop within a minute" >&2; exit 1; }
}
ended() { [ -z "$(pid "$1")" ]; }

# python_with makes a Python environment with a package in it, once; it prints the way to its interpreter. What
# pip says stays in a log.
python_with() {
	local package=$1 env="$kept/interop/$2" log
	if [ ! -f "$env/complete" ]; then
		mkdir -p "$kept/interop"
		log=$env.log
		rm -rf "$env"
		python3 -m venv "$env" >"$log" 2>&1 && "$env/bin/python" -m pip install --quiet "$package" >>"$log" 2>&1 || return 1
		touch "$env/complete"
	fi
	echo "$env/bin/python"
}

pyiceberg() {
	command -v python3 >/dev/null || skip "python3 is not on the PATH"
	say "pyiceberg, in a Python environment of its own"
	local python
	python=$(python_with 'pyiceberg[sql-postgres,pyarrow]==0.12.0' pyiceberg-0.12.0) ||
		skip "pyiceberg could not be installed: $(tail -n 1 "$kept/interop/pyiceberg-0.12.0.log")"
	demo_lake
	say "pyiceberg reads what smelt connect pyiceberg tells it"
	(umask 077 && "$root/bin/smelt" connect pyiceberg >"$SMELT_HOME/.pyiceberg.yaml")
	PYICEBERG_HOME=$SMELT_HOME "$python" "$root/scripts/interop_pyiceberg.py" "$root/scripts/query.sh"
	echo "interop pyiceberg: passed"
}

case ${1:-} in
pyiceberg) pyiceberg ;;
*) usage ;;
esac
