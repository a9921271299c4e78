#!/usr/bin/env bash
# The demo end to end, in a state folder and on ports of its own: start, query every layer, verify, correct
# history, kill -9 of a backfill, of the pipeline and then of everything in mid-stream, start, verify again, stop.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$root/scripts/demo.sh"
build
own_lake e2e
export SMELT_HTTP_TOKEN=e2e-token-$RANDOM$RANDOM

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

say "a sensor's place is known late: its readings find it by themselves"
"$root/bin/smelt" locate e2e-001 Oulu Finland >/dev/null
healed() { [ "$(query "SELECT count(*) FROM gold WHERE city = 'Oulu' AND readings = 500")" = 1 ]; }
expect "500 readings are healed" await healed

say "correct history while the stream runs, and again"
"$root/scripts/correct-location.sh" >"$SMELT_HOME/correct.out"
grep -E '^(plan:|✓|sensors )' "$SMELT_HOME/correct.out"
places() { [ "$(query "SELECT string_agg(DISTINCT city) FROM $1 WHERE ${2:-true} AND city IN ('Espoo', 'Helsinki')")" = "$3" ]; }
expect "silver has hel-001 in Helsinki" places silver "sensor_id = 'hel-001'" Helsinki
expect "gold has no Espoo" places gold '' Helsinki
expect "correct-location.sh twice" grep -q '^There is nothing to correct' <("$root/scripts/correct-location.sh")

say "kill -9 of a backfill in mid-run, and again"
"$root/bin/smelt" locate hel-001 Espoo Finland >/dev/null
"$root/bin/smelt" backfill sensors --reference-changes --yes >/dev/null 2>&1 &
killed=$!
begun() { [ -d "$SMELT_HOME/tmp/backfill-$killed" ] || ! kill -0 "$killed" 2>/dev/null; }
every=0.05 expect "a backfill begins" await begun
read -rt "0.$((RANDOM % 10))" <> <(:) || true
kill -9 "$killed" 2>/dev/null || true # it may have been quicker
wait "$killed" 2>/dev/null || true
"$root/bin/smelt" verify
"$root/bin/smelt" backfill sensors --reference-changes --yes | sed -n 1p
expect "silver has hel-001 in Espoo" places silver "sensor_id = 'hel-001'" Espoo
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

say "no secret is in a log, a metric or a status, nor on a command line, and nobody else reads the state folder"
ask() { curl -sS -H "Authorization: Bearer $SMELT_HTTP_TOKEN" "http://$SMELT_HTTP$1"; }
said() {
	ask /metrics; ask /maintenance; ask '/readyz?verbose'
	"$root/bin/smelt" status; "$root/bin/smelt" status --json; "$root/bin/smelt" config
	tr '\0' ' ' <"/proc/$(pid run)/cmdline"; tr '\0' ' ' <"/proc/$(pid stack)/cmdline"; tr '\0' ' ' <"/proc/$(pid generate)/cmdline"
	cat "$SMELT_HOME"/logs/*
}
said >"$SMELT_HOME/said" 2>&1
expect "metrics with the token" grep -q '^smelt_records_total' "$SMELT_HOME/said"
expect "no metrics without it" test "$(curl -sS -o /dev/null -w '%{http_code}' "http://$SMELT_HTTP/metrics")" = 401
words=$(sed -nE 's/.*"(s3_secret|postgres_password)": "(.*)".*/\2/p' "$SMELT_HOME/secrets.json"; echo "$SMELT_HTTP_TOKEN")
expect "three secrets to look for" test "$(wc -w <<<"$words")" = 3
for word in $words; do
	if grep -qF -- "$word" "$SMELT_HOME/said"; then
		expect "a secret is shown in $SMELT_HOME/said" false
	fi
done
expect "the files with secrets are their owner's" test -z "$(find "$SMELT_HOME"/*.env "$SMELT_HOME/secrets.json" "$SMELT_HOME/logs" "$SMELT_HOME/run" -perm /077)"

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
