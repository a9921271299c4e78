# Spark over the embedded stack's lake: it agrees with the shell, and compacts silver while smelt goes on; sourced by
# interop.sh.

iceberg_version=1.10.0 # that of smelt connect spark

try_spark() {
	need python3
	need mvn
	java=$(java_of 17) || skip "Spark $spark_version needs Java 17, and none is in JAVA_HOME, /usr/lib/jvm or on the PATH"
	cached "pyspark-$spark_version" python_with "pyspark==$spark_version"
	cached "spark-jars-$iceberg_version" jars_for_spark
	demo_lake
	say "Spark $spark_version, as smelt connect spark configures it, but for where its jars are"
	(umask 077 && "$root/bin/smelt" connect spark | sed "s|^spark.jars.packages .*|spark.jars $(jars)|" >"$SMELT_HOME/spark.conf")

	say "after appends"
	pause
	ask_spark tables past

	say "Spark compacts silver while the line runs, at 30 readings a second"
	local before had
	before=$(settled)
	SMELT_MAINTAIN=false resume # smelt's own compaction would take away files that Spark is rewriting
	begin flood "$root/bin/smelt" generate --count 1500 --rate 30 --history 0s
	local flood=$!
	# The line commits every two seconds: on a slow machine four tries, the default, may all come too late.
	ask_spark run "ALTER TABLE lake.silver.sensors SET TBLPROPERTIES ('commit.retry.num-retries' = '60', 'commit.retry.max-wait-ms' = '500')" \
		run "CALL lake.system.rewrite_data_files(table => 'silver.sensors', options => map('rewrite-all', 'true'))" |
		sed 's/^/  /'
	ask_spark run "SELECT count(*) FROM lake.silver.sensors.files" run "SELECT operation, count(*) FROM lake.silver.sensors.snapshots GROUP BY operation" |
		sed 's/^/  /'
	wait "$flood" || fail "the generator failed"
	must "the line did not go on in time" await caught_up "$(query "SELECT count(*) FROM bronze")"
	same "gold's settled windows are as they were, untouched: digest" "$(settled | cksum)" "$(cksum <<<"$before")"
	had=$("$root/bin/smelt" history silver.sensors --limit 0 --json | grep -c '"operation":"replace"') || fail "Spark compacted nothing"
	echo "  compactions in silver's history: $had"
	"$root/bin/smelt" verify

	say "after a backfill over what Spark has compacted"
	"$root/bin/smelt" locate hel-001 Helsinki Finland >/dev/null
	"$root/bin/smelt" backfill sensors --reference-changes --yes | sed -n 1p
	pause
	"$root/bin/smelt" verify
	same "all of hel-001's readings are in Helsinki" \
		"$(query "SELECT count(*) > 0 AND count(*) = (SELECT count(*) FROM silver WHERE sensor_id = 'hel-001') FROM silver WHERE city = 'Helsinki'")" true
	ask_spark tables past

	say "tenants, and columns, whose names are hard to tell"
	hostile_line
	ask_spark hostile run "CALL lake.system.rewrite_data_files(table => 'silver.hostile', where => 'tenant IS NULL OR tenant IN (\"\", \"..\", \"a/b=c\", \"50%2F%\")', options => map('rewrite-all', 'true'))" hostile
	"$root/bin/smelt" verify
}

jars_for_spark() {
	local artifact
	for artifact in org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:$iceberg_version \
		org.apache.iceberg:iceberg-aws-bundle:$iceberg_version org.postgresql:postgresql:42.7.7; do
		from_maven copy "-Dartifact=$artifact" -DoutputDirectory=. || return 1
	done
}
jars() { printf '%s\n' "$kept/interop/spark-jars-$iceberg_version"/*.jar | paste -sd,; }

ask_spark() {
	JAVA_HOME=$java SPARK_LOCAL_IP=127.0.0.1 "$kept/interop/pyspark-$spark_version/bin/python" \
		"$root/scripts/interop/agree.py" "$root/scripts/query.sh" spark "$SMELT_HOME/spark.conf" "$@" 2>"$SMELT_HOME/logs/spark.log" ||
		fail "Spark: $(grep -vE '^\s*(at|\.\.\.) ' "$SMELT_HOME/logs/spark.log" | tail -n 5)"
}
