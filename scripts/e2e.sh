#!/usr/bin/env bash
# The demo end to end, in a state folder and on ports of its own: start, query every layer, verify,
# kill -9 of the pipeline and then of everything in mid-stream, start, verify again, stop.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$root/scripts/demo.sh"
build
own_lake e2e

expect() { # description, command…: it must succeed
	local what=$1
	shift
	"$@" || { echo "end to end: $what" >&2; exit 1; }
}
kill_hard() {
	local p
	p=$(pid "$1")
	kill -9 "$p"
	while kill -0 "$p" 2>/dev/null; do read -rt 0.05 <> <(:) || true; done
}

say "start"
"$root/scripts/start.sh" | tail -n 2 | tee "$SMELT_HOME/start.out"
expect "the last line of start.sh" grep -qx 'Sensor Stream is queryable.' <(tail -n 1 "$SMELT_HOME/start.out")

say "start again: it runs already"
expect "start.sh twice" grep -q 'already runs' <("$root/scripts/start.sh")

say "every layer answers"
for layer in bronze silver gold bronze.sensors silver.sensors gold.sensors_hourly reference.locations; do
	n=$(query "SELECT count(*) FROM $layer")
	echo "$layer $n"
	expect "$layer is empty" test "$n" -gt 0
done
expect "quarantine.sensors" query "SELECT count(*) FROM quarantine.sensors"
expect "gold has New York" test "$(query "SELECT count(*) > 0 FROM gold WHERE city = 'New York'")" = true

say "records of one's own"
before=$(query "SELECT count(*) FROM bronze WHERE sensor_id = 'e2e-001'")
for i in $(seq 1 500); do
	printf '{"sensor_id":"e2e-001","temperature":%d,"unit":"C","event_time":"2026-01-01T00:00:00Z"}\n' "$((i % 40))"
done | "$root/bin/smelt" produce --topic sensor.readings
arrived() { [ "$(query "SELECT count(*) FROM gold WHERE hour = '2026-01-01' AND readings = $1")" = 1 ]; }
expect "500 records arrive in gold" await arrived 500
expect "and none was there before" test "$before" = 0

say "verify"
"$root/bin/smelt" verify

bronze_has() { [ "$(query "SELECT count(*) FROM bronze")" -ge "$1" ]; }
flood() { exec "$root/bin/smelt" generate --count 3000 --rate 250 --history 0s; }

say "kill -9 of the pipeline in mid-stream"
before=$(query "SELECT count(*) FROM bronze")
flood &
flooding=$!
expect "the flood reaches bronze" await bronze_has $((before + 100))
kill_hard run
wait "$flooding"
"$root/scripts/start.sh" | tail -n 2
expect "all 3,000 reach bronze" await bronze_has $((before + 3000))
"$root/bin/smelt" verify

say "kill -9 of everything in mid-stream"
before=$(query "SELECT count(*) FROM bronze")
flood >/dev/null 2>&1 &
flooding=$!
expect "the flood reaches bronze" await bronze_has $((before + 100))
kill_hard run
kill_hard stack
kill_hard generate
kill -9 "$flooding" 2>/dev/null || true # without a broker it would wait for one
wait "$flooding" || true
"$root/scripts/start.sh" | tail -n 2
"$root/bin/smelt" verify
expect "the 500 are there, once" test "$(query "SELECT count(*) || ' ' || count(DISTINCT (_partition_id, _partition_offset)) FROM silver WHERE sensor_id = 'e2e-001'")" = "500 500"

say "stop, and query what is left running: nothing"
seconds=$SECONDS
"$root/scripts/stop.sh"
echo "stopped in $((SECONDS - seconds)) s"
expect "a second stop" "$root/scripts/stop.sh"

say "start again, go on, stop"
"$root/scripts/start.sh" | tail -n 2
"$root/bin/smelt" verify
"$root/scripts/stop.sh"
echo "end to end: passed"
