# smelt and others take the same events from the same topic, one after the other; sourced by bench.sh.
. "$root/scripts/programs.sh"
. "$root/scripts/bench/peers/connect.sh"
. "$root/scripts/bench/peers/spark.sh"

suite=bench
component=peers
iceberg_version=1.12.0 # of the sink, and of Spark's tables
postgresql_version=42.7.7 # the JDBC driver: they use smelt's catalog
topic=telemetry.events.v1
partitions=4
rehearsal=telemetry.rehearsal # a topic that the Java programs take first: what they need to start is not measured
rehearsed=20000

peers() {
	local n=${1:-2000000}
	count "$n"
	result=peers
	about="$(grouped "$n") events of a fleet wait in Apache Kafka, in $partitions partitions; one in 20 is a duplicate. smelt and the others take them one after the other,
and every output is counted: rows, unique keys, and events in the aggregates. What they do differs:

- smelt: bronze as received, silver typed and without duplicates, gold by the minute. \`smelt bench drain\`, with the defaults.
- Kafka Connect with Iceberg's sink: appends typed rows to a table. It has no bronze, keeps duplicates and aggregates nothing. $about_connect
- Spark, batch: reads the topic once, drops duplicates and appends to a table, then aggregates that table by the minute. $about_spark
- Spark, stream: Structured Streaming, 500,000 events a micro-batch, with the keys of an hour in RocksDB; each batch is appended, and its minutes are merged into
  the aggregates.
- DuckDB, bare: reads the topic's events from plain files, as it does not read Kafka; typed, without duplicates, to one local Parquet file of zstd. It keeps no position
  and commits nothing: the limit of this machine.

smelt, Kafka Connect and Spark share the store and the catalog: the embedded S3 and PostgreSQL. Their tables of events have the partitions of smelt's silver,
12 here, and Parquet of zstd. CPU is that of the program that does the work, with the children that it has waited for. It counts from the start of the drain,
of the connector or of the query. Kafka Connect and Spark have taken $(grouped $rehearsed) other events before: what they need to start, and to load their classes, is
in a figure of its own."
	end_programs # of a run before this one
	[ "$SMELT_HOME" = "$kept" ] || leave_lake
	fetch
	lake_of_its_own
	mkdir -p "$SMELT_HOME/logs"
	start_broker
	start_stack
	export SMELT_KAFKA_BROKERS=127.0.0.1:$kafka_port SMELT_KAFKA_TRIM=false SMELT_PIPELINES=$root/bench/pipelines
	fill "$n"
	take_smelt
	take_connect
	take_spark batch
	take_spark stream
	take_duckdb
}

# fetch gets all that takes part.
fetch() {
	need python3
	need mvn
	java=$(java_of 17) || skip "Kafka and Spark need Java 17 or later, and none is in JAVA_HOME, /usr/lib/jvm or on the PATH"
	fetch_kafka
	fetch_connect
	fetch_spark
	cached "confluent-kafka-$librdkafka_version" python_with "confluent-kafka==$librdkafka_version"
	cached "pyiceberg-$pyiceberg_version" python_with "pyiceberg[sql-postgres,pyarrow]==$pyiceberg_version"
	cached "duckdb-$duckdb_version" python_with "duckdb==$duckdb_version"
	versions=(--versions "Kafka=$kafka_version" --versions "Kafka Connect=$connect_version" --versions "Iceberg=$iceberg_version"
		--versions "Spark=$spark_version" --versions "Java=$("$java/bin/java" -XshowSettings:properties -version 2>&1 | sed -n 's/.*java.version = //p')")
}

# start_broker starts Apache Kafka, for this machine alone.
start_broker() {
	local controller_port
	kafka_port=$(free_port 15000) controller_port=$(free_port 10000)
	kafka_dir=$SMELT_HOME/kafka
	mkdir -p "$kafka_dir"
	cat >"$kafka_dir/server.properties" <<-END
		process.roles=broker,controller
		node.id=1
		controller.quorum.voters=1@127.0.0.1:$controller_port
		controller.listener.names=CONTROLLER
		listeners=PLAINTEXT://127.0.0.1:$kafka_port,CONTROLLER://127.0.0.1:$controller_port
		advertised.listeners=PLAINTEXT://127.0.0.1:$kafka_port
		log.dirs=$kafka_dir/log
		auto.create.topics.enable=false
		offsets.topic.replication.factor=1
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		group.initial.rebalance.delay.ms=0
	END
	kafka_java kafka.tools.StorageTool format --cluster-id c21lbHQtYmVuY2gtLS0wMQ --config "$kafka_dir/server.properties" >/dev/null
	start_kafka
}

# python runs one of the programs here in one of the environments.
python() { # environment, program, arguments…
	PYTHONDONTWRITEBYTECODE=1 PYICEBERG_HOME=$SMELT_HOME JAVA_HOME=$java "$kept/interop/$1/bin/python" "$root/scripts/bench/peers/$2.py" "${@:3}"
}
tables() { python "pyiceberg-$pyiceberg_version" tables "$@"; }

# attend runs a command to its end, in a process group of its own, so that whatever ends this script ends it too. What it
# prints is in said, its errors are in a log.
attend() { # name, command…
	local name=$1 log=$SMELT_HOME/logs/$1.log
	shift
	set -m
	"$@" >"$SMELT_HOME/said" 2>"$log" </dev/null &
	set +m
	wait $! || fail "$name: $(grep -vE '^\s*(at|\.\.\.) ' "$log" | tail -n 5)"
	said=$(cat "$SMELT_HOME/said")
}

# make_topic makes a topic without records, and waits until the broker knows it.
make_topic() { # name, partitions
	must "the topic $1 could not be made" await sent "$@" </dev/null
}

# sent sends lines to a topic, which it makes when it is missing.
sent() { "$root/bin/smelt" produce --topic "$1" --partitions "$2" 2>/dev/null; } # name, partitions

# fill sends the events, and counts what the topic then has: what all others have to come to.
fill() {
	say "$(grouped "$1") events of a fleet into the topic $topic"
	make_topic "$topic" "$partitions"
	make_topic "$rehearsal" "$partitions"
	attend fill "$root/bin/smelt-bench" bench fill "$1"
	attend topic python "confluent-kafka-$librdkafka_version" topic "$SMELT_KAFKA_BROKERS" "$topic" "$SMELT_HOME/copy"
	read -r events size unique minutes <<<"$said"
	[ "$events" = "$1" ] || fail "the topic has $events records, and not $1"
	echo "  $events events, $unique unique ones, of $minutes minutes, in $(awk "BEGIN {printf \"%.1f\", $size / 1e6}") MB of raw JSON"
	head -qn $((rehearsed / partitions)) "$SMELT_HOME"/copy/*.ndjson | sent "$rehearsal" "$partitions"
}

take_smelt() {
	local own=$SMELT_HOME/smelt.ndjson
	say "smelt: bronze, typed silver without duplicates, gold by the minute"
	attend drain "$root/bin/smelt-bench" bench --samples "$own" drain
	settings_of_lake
	same "rows and keys of silver.fleet" "$(tables unique silver.fleet tenant_id event_id)" "$unique $unique"
	same "rows and events of gold.fleet_minute" "$(tables sum gold.fleet_minute readings)" "$minutes $unique"
	smelt_cpu=$(awk "BEGIN {print $(figure "$own" 'µs of CPU an event') * $events / 1e6}")
	measured smelt "$smelt_cpu" "$(awk "BEGIN {print $events / $(figure "$own" events/s)}")"
}

# figure prints a figure of "all stages", which a drain has recorded.
figure() { # file, unit
	sed -n 's|.*"of":"all stages","value":\([^,]*\),"unit":"'"$2"'".*|\1|p' "$1"
}

# settings_of_lake writes how others reach the catalog and the store: for their owner alone, as they hold passwords.
settings_of_lake() {
	(umask 077 && "$root/bin/smelt" connect spark | grep -v '^spark.jars.packages' >"$SMELT_HOME/lake.conf" &&
		"$root/bin/smelt" connect pyiceberg >"$SMELT_HOME/.pyiceberg.yaml")
}

take_duckdb() {
	local cpu took rows
	say "DuckDB $duckdb_version, bare: typed, without duplicates, from files to one Parquet file"
	attend duckdb python "duckdb-$duckdb_version" duck "$SMELT_HOME/copy" "$SMELT_HOME/copy.parquet"
	read -r cpu took rows <<<"$said"
	same "rows and keys of the file" "$rows" "$unique $unique"
	measured "DuckDB, bare" "$cpu" "$took"
}

# measured prints and records what all events took.
measured() { # what, CPU seconds, wall seconds, CPU seconds with its start
	awk -v of="$1" -v cpu="$2" -v took="$3" -v all="${4:-}" -v n="$events" -v mb="$(awk "BEGIN {print $size / 1e6}")" -v own="$smelt_cpu" -v file="$samples" '
		function sample(value, unit) { printf "{\"of\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", of, value, unit >>file }
		BEGIN {
			printf "  %s: %d events, %.1f MB, %.2f CPU-s%s, %.1f MB a CPU-s, %.2f µs of CPU an event, %.2f × the CPU of smelt, %.1f s\n",
				of, n, mb, cpu, all == "" ? "" : sprintf(" (%.2f with start and rehearsal)", all), mb / cpu, cpu / n * 1e6, cpu / own, took
			sample(mb / cpu, "MB of raw JSON a CPU-second")
			if (of != "smelt") sample(cpu / own, "× the CPU of smelt")
			sample(cpu / n * 1e6, "µs of CPU an event")
			sample(cpu, "CPU seconds")
			if (all != "") sample(all, "CPU seconds with start and rehearsal")
		}'
}
