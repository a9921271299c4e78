# Trino over the embedded stack's lake: it agrees with the shell after every kind of commit, then it compacts, expires
# and cleans up while smelt goes on; sourced by interop.sh.

trino_version=476

try_trino() {
	local java
	need python3
	need mvn
	java=$(java_of 24) || skip "Trino $trino_version needs Java 24 or later, and none is in JAVA_HOME, /usr/lib/jvm or on the PATH"
	cached "trino-$trino_version" unpack_trino
	demo_lake
	start_trino "$java"
	read_with_trino
	compact_with_trino
	expire_with_trino
	delete_with_trino
	hostile_with_trino
}

# unpack_trino leaves out the other connectors: it starts sooner without them. Maven's own unpacking loses the archive's
# hard links.
unpack_trino() {
	from_maven copy "-Dartifact=io.trino:trino-server:$trino_version:tar.gz" -DoutputDirectory=. &&
		tar -xzf "trino-server-$trino_version.tar.gz" --strip-components=1 &&
		rm "trino-server-$trino_version.tar.gz" &&
		find plugin -mindepth 1 -maxdepth 1 ! -name iceberg -exec rm -r {} +
}

# start_trino starts a coordinator, of 1.5 GB, that finds the lake as smelt connect trino tells it.
start_trino() { # the home of a Java
	local etc=$SMELT_HOME/trino/etc port
	port=$(free_port 17500)
	trino=http://127.0.0.1:$port
	mkdir -p "$etc/catalog"
	printf '%s\n' node.environment=interop "node.data-dir=$SMELT_HOME/trino" node.bind-ip=127.0.0.1 \
		node.internal-address=127.0.0.1 >"$etc/node.properties"
	printf '%s\n' coordinator=true node-scheduler.include-coordinator=true "http-server.http.port=$port" \
		"discovery.uri=$trino" catalog.management=static query.max-memory=512MB >"$etc/config.properties"
	printf '%s\n' -Xmx1G -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256M \
		-Djdk.attach.allowAttachSelf=true --add-modules=jdk.incubator.vector >"$etc/jvm.config"
	printf 'io.trino=WARN\n' >"$etc/log.properties"
	(umask 077 && "$root/bin/smelt" connect trino >"$etc/catalog/lake.properties")
	say "Trino $trino_version starts"
	JAVA_HOME=$1 PATH=$1/bin:$PATH begin trino "$kept/interop/trino-$trino_version/bin/launcher" run --etc-dir "$etc"
	must "Trino did not start in time" await trino_started
}
trino_started() { curl -fsS "$trino/v1/info" 2>/dev/null | grep -q '"starting":false'; }

agree() { python3 "$root/scripts/interop/agree.py" "$root/scripts/query.sh" trino "$trino" "$@"; }
ask_trino() { agree run "$1"; }

read_with_trino() {
	say "after appends"
	pause
	agree tables past

	say "after a backfill"
	"$root/bin/smelt" locate hel-001 Helsinki Finland >/dev/null
	"$root/bin/smelt" backfill sensors --reference-changes --yes | sed -n 1p
	agree tables past

	say "after late readings, which replace a day of gold, with columns more"
	evolve 'length(sensor_id)::INTEGER AS size' "{'of': sensor_id} AS label" 'day(event_time)'
	resume
	readings trino-002 200 2026-01-01 | "$root/bin/smelt" produce --topic sensor.readings
	must "late readings did not arrive in time" await late_arrived 700
	pause
	agree tables past

	say "after more of them, with a wider column, a field more in a struct, and another partitioning"
	evolve 'length(sensor_id)::BIGINT AS size' "{'of': sensor_id, 'size': length(sensor_id)} AS label" 'hour(event_time)'
	resume
	readings trino-003 100 2026-01-01 | "$root/bin/smelt" produce --topic sensor.readings
	must "late readings did not arrive in time" await late_arrived 800
	pause
	agree tables past
	same "rows by the columns they have" "$(ask_trino "SELECT count(*) FROM lake.silver.sensors
		WHERE sensor_id LIKE 'trino-%' GROUP BY size IS NULL, label.of IS NULL, label.size IS NULL ORDER BY 1" | xargs)" "100 200 500"

	say "after a rollback of silver to before the backfill; and after the line has gone on from there"
	local tag
	tag=$("$root/bin/smelt" history silver.sensors --limit 0 --json | sed -n 's/.*"name":"\(smelt-backfill-[^"]*\)".*/\1/p' | head -n 1)
	"$root/bin/smelt" rollback silver.sensors "$tag" --yes | tail -n 1
	agree past
	resume
	must "the rolled-back rows did not come again in time" await late_arrived 800
	pause
	agree tables past
	"$root/bin/smelt" verify
}

# evolve gives silver two columns more, and a partitioning.
evolve() { # column, column, partitioning
	local sql=$SMELT_HOME/pipelines/sensors/silver.sql
	mkdir -p "$SMELT_HOME/pipelines"
	cp -R "$root/sql/." "$SMELT_HOME/pipelines"
	sed "s|^    locations.country .*|&\n    $1,\n    $2,|" "$root/sql/sensors/silver.sql" >"$sql"
	sed "s|^  partition: .*|  partition: $3|" "$root/sql/sensors/pipeline.yml" >"$SMELT_HOME/pipelines/sensors/pipeline.yml"
	export SMELT_PIPELINES=$SMELT_HOME/pipelines
}

late_arrived() {
	[ "$(query "SELECT sum(readings) FROM gold WHERE hour < '2026-01-02'")" = "$1" ] &&
		[ "$(query "SELECT count(*) FROM silver WHERE event_time < '2026-01-02'")" = "$1" ]
}
silver_files() { ask_trino 'SELECT count(*) FROM lake.silver."sensors$files" WHERE content = 0'; }

compact_with_trino() {
	local before files after position recomputed
	before=$(settled) recomputed=$(recomputations)
	say "Trino compacts silver while the line runs, at 30 readings a second"
	resume
	begin flood "$root/bin/smelt" generate --count 900 --rate 30 --history 0s
	local flood=$! round
	for round in 1 2 3; do
		read -rt 6 <> <(:) || true
		files=$(silver_files)
		ask_trino 'ALTER TABLE lake.silver.sensors EXECUTE optimize'
		after=$(silver_files)
		echo "  round $round: $files files, $after after it"
		[ "$after" -lt "$files" ] || fail "Trino made no fewer files of $files"
	done
	wait "$flood" || fail "the generator failed"
	position=$(query "SELECT count(*) FROM bronze")
	must "the line did not go on in time" await caught_up "$position"
	same "gold's settled windows are as they were, untouched: digest" "$(settled | cksum)" "$(cksum <<<"$before")"
	same "times that gold was recomputed as a whole" "$(recomputations)" "$recomputed"
	ask_trino 'ALTER TABLE lake.gold.sensors_hourly EXECUTE optimize'
	ask_trino 'ALTER TABLE lake.quarantine.sensors EXECUTE optimize'
	"$root/bin/smelt" verify
	pause
	agree tables past
}

recomputations() { grep -c 'recomputed as a whole' "$SMELT_HOME/logs/run.log" || true; }

expire_with_trino() {
	local table before tags position
	say "Trino expires all but the newest snapshots while the line runs, and looks for orphans as old as it does by default"
	resume
	before=$(settled)
	tags=$(tagged)
	for table in silver.sensors quarantine.sensors gold.sensors_hourly; do
		ask_trino "ALTER TABLE lake.$table EXECUTE expire_snapshots(retention_threshold => '0s')"
		ask_trino "ALTER TABLE lake.$table EXECUTE remove_orphan_files"
	done
	position=$(query "SELECT count(*) FROM bronze")
	must "the line did not go on in time" await caught_up $((position + 1))
	same "gold's settled windows are as they were: digest" "$(settled | cksum)" "$(cksum <<<"$before")"
	readings trino-004 200 2026-01-01 | "$root/bin/smelt" produce --topic sensor.readings
	must "readings did not arrive after the expiry" await late_arrived 1000
	"$root/bin/smelt" verify
	same "tagged snapshots" "$(tagged)" "$tags"
	pause
	agree tables past

	say "Trino removes every orphan, with nothing running that could still need one; and the line goes on"
	for table in silver.sensors quarantine.sensors gold.sensors_hourly; do
		ask_trino "ALTER TABLE lake.$table EXECUTE remove_orphan_files(retention_threshold => '0s')"
	done
	"$root/bin/smelt" verify
	resume
	readings trino-005 100 2026-01-01 | "$root/bin/smelt" produce --topic sensor.readings
	must "readings did not arrive after the cleaning" await late_arrived 1100
	pause
	"$root/bin/smelt" verify
	agree tables past
}
tagged() { ask_trino "SELECT name, snapshot_id FROM lake.silver.\"sensors\$refs\" WHERE type = 'TAG' ORDER BY name"; }

# delete_with_trino takes rows out behind smelt's back: it must say so, hold gold until it can read silver again, and
# be whole after the rollback that it asks for.
delete_with_trino() {
	local before had code=0
	had=$(query "SELECT count(*) FROM silver WHERE event_time < '2026-01-02'")
	before=$("$root/bin/smelt" history silver.sensors --limit 1 --json | sed -n 's/.*"snapshot":\([0-9]*\).*/\1/p')
	say "Trino deletes rows of silver, by row-level deletes"
	# While nothing else commits: Trino's DELETE does not try again when another commit came first.
	ask_trino "DELETE FROM lake.silver.sensors WHERE sensor_id = 'trino-001' AND event_time < TIMESTAMP '2026-01-01 03:00:00 UTC'"
	resume
	must "smelt does not say that there are row-level deletes" await said 'row-level deletes; compact it with the engine that made them'
	"$root/bin/smelt" verify || code=$?
	same "exit code of verify" "$code" 7
	code=0
	ask_trino 'ALTER TABLE lake.silver.sensors EXECUTE optimize'
	must "gold did not go on after the compaction" await late_arrived $((had - 63))
	"$root/bin/smelt" verify || code=$?
	same "exit code of verify" "$code" 7
	"$root/bin/smelt" rollback silver.sensors "$before" --yes | tail -n 1
	must "the rows did not come again" await late_arrived "$had"
	pause
	"$root/bin/smelt" verify
	agree tables past
}

# hostile_with_trino reads tables of odd names and values, and compacts some of the tenants: Trino names files for them, and
# the longest do not fit into the name of a file, as which the embedded store keeps an object.
hostile_with_trino() {
	say "tenants, and columns, whose names are hard to tell"
	hostile_line
	agree hostile
	ask_trino "ALTER TABLE lake.silver.hostile EXECUTE optimize WHERE tenant IS NULL OR tenant IN ('', '..', 'a/b=c', '50%2F%', '__HIVE_DEFAULT_PARTITION__')"
	"$root/bin/smelt" verify
	agree hostile
}
