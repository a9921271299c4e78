# Shared by the suites of interop.sh; sourced after programs.sh, not run.

# demo_lake makes a lake that holds the demo's readings, 500 of a day long past and a few that are rejected.
demo_lake() {
	lake_of_its_own
	say "a lake of its own"
	"$root/scripts/start.sh" | tail -n 2
	readings "$component-001" 500 2026-01-01 | "$root/bin/smelt" produce --topic sensor.readings
	must "500 readings did not arrive in gold, and 5 in quarantine, in time" await arrived "$component-001"
}

# readings writes some of a sensor's on a day, and five that are rejected.
readings() { # sensor, how many, day
	local i
	for i in $(seq 0 $(($2 - 1))); do
		printf '{"sensor_id":"%s","temperature":%d,"unit":"C","event_time":"%sT%02d:00:00Z"}\n' "$1" "$((i % 40))" "$3" "$((i % 24))"
	done
	for i in $(seq 0 4); do
		printf '{"sensor_id":"%s","temperature":"%d","unit":"C","event_time":"%sT00:00:00Z"}\n' "$1" "$i" "$3"
	done
}

arrived() {
	[ "$(query "SELECT sum(readings) FROM gold WHERE hour < '2026-01-02'")" = 500 ] &&
		[ "$(query "SELECT count(*) FROM quarantine.sensors WHERE raw LIKE '%$1%'")" = 5 ]
}

# hostile_line has another pipeline, whose silver is parted by tenants with names that are hard to tell (hostile.py), take
# their events; it leaves nothing running. What its objects are called has nothing of them.
hostile_line() {
	local dir=$SMELT_HOME/pipelines/hostile odd
	export SMELT_PIPELINES=$SMELT_HOME/pipelines
	[ -d "$SMELT_PIPELINES" ] || cp -R "$root/sql/." "$SMELT_PIPELINES"
	mkdir "$dir"
	cat >"$dir/pipeline.yml" <<-'END'
		source: {kafka: interop.Hostile-Names_1}
		events:
		  time: made
		  columns: {tenant: varchar, n: bigint not null, made: timestamptz not null, "Sp ace/%=é😀": varchar}
		silver: {partition: [tenant, day(made)]}
		gold:
		  select: {window: 1h, column: hour}
	END
	echo 'SELECT tenant, n, made, "Sp ace/%=é😀", _partition_id, _partition_offset FROM bronze.hostile' >"$dir/silver.sql"
	echo "SELECT date_trunc('hour', made) AS hour, tenant, count(*) AS n FROM silver.hostile GROUP BY ALL" >"$dir/select.sql"
	python3 "$root/scripts/interop/hostile.py" | "$root/bin/smelt" produce --topic interop.Hostile-Names_1 --partitions 2
	resume
	must "the events of odd tenants did not arrive in gold in time" await hostile_arrived
	pause
	"$root/bin/smelt" verify
	odd=$(cd "$SMELT_HOME/s3" && find . -path '*hostile*' | LC_ALL=C grep -v '^[A-Za-z0-9_./-]*$' || true)
	[ -z "$odd" ] || fail "objects are named for values: $odd"
}
hostile_arrived() { [ "$(query "SELECT (SELECT sum(n) FROM gold.hostile_select) + (SELECT count(*) FROM quarantine.hostile)")" = 174 ]; }

# halt ends a command of smelt that runs in the background, as a signal would: the pipeline drains.
halt() {
	kill "$(pid "$1")"
	must "smelt $1 did not stop in time" await ended "$1"
}
ended() { [ -z "$(pid "$1")" ]; }

# pause stops the generator and the pipeline: the counts stand still.
pause() {
	halt generate
	halt run
}

# resume starts them again.
resume() { "$root/scripts/start.sh" 2>/dev/null | tail -n 2 | head -n 1; }

# caught_up says whether silver and quarantine have so many records, and gold those of silver.
caught_up() {
	[ "$(query "SELECT (SELECT count(*) FROM silver) + (SELECT count(*) FROM quarantine.sensors)")" -ge "$1" ] &&
		[ "$(query "SELECT (SELECT sum(readings) FROM gold) + (SELECT count(*) FROM quarantine.sensors)")" -ge "$1" ]
}

# settled is all of gold's windows that no reading comes to any more, with when they were computed.
settled() { query "SELECT * FROM gold WHERE hour < '2026-01-02' ORDER BY hour, city"; }

# said says whether the pipeline has logged something.
said() { grep -q "$1" "$SMELT_HOME/logs/run.log"; }
