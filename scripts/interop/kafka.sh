# A broker of Apache Kafka's, and librdkafka's producers: what they do that the embedded broker does not, or otherwise;
# sourced by interop.sh.

kafka_version=4.4.0
librdkafka_version=2.16.0 # confluent-kafka's
kafka_password=right-password

try_kafka() {
	need python3
	need mvn
	java=$(java_of 17) || skip "Kafka $kafka_version needs Java 17 or later, and none is in JAVA_HOME, /usr/lib/jvm or on the PATH"
	cached "kafka-$kafka_version" jars_of_kafka
	cached "confluent-kafka-$librdkafka_version" python_with "confluent-kafka==$librdkafka_version"
	lake_of_its_own
	format_kafka
	start_kafka
	start_stack
	export SMELT_KAFKA_BROKERS=127.0.0.1:$kafka_port

	the_demo
	make_pipelines exact transacted compacted grown killed sized
	start_run
	idempotent
	transactions
	compaction
	partitions_added
	broker_killed
	sizes
	log_in
}

# jars_of_kafka fetches the broker with all that it depends on.
jars_of_kafka() {
	cat >pom.xml <<-END
		<project>
		  <modelVersion>4.0.0</modelVersion>
		  <groupId>smelt</groupId><artifactId>interop</artifactId><version>1</version>
		  <dependencies>
		    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka_version</version></dependency>
		    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
		  </dependencies>
		</project>
	END
	from_maven copy-dependencies -DincludeScope=runtime -DoutputDirectory=.
}

# format_kafka makes the folder of a broker that is its own controller: one listener without a log-in, one with.
format_kafka() {
	local controller
	kafka_port=$(free_port 15000) sasl_port=$(free_port 12500) controller=$(free_port 10000)
	mkdir -p "$SMELT_HOME/kafka-broker"
	cat >"$SMELT_HOME/kafka-broker/server.properties" <<-END
		process.roles=broker,controller
		node.id=1
		controller.quorum.voters=1@127.0.0.1:$controller
		controller.listener.names=CONTROLLER
		listeners=PLAIN://127.0.0.1:$kafka_port,LOGIN://127.0.0.1:$sasl_port,CONTROLLER://127.0.0.1:$controller
		advertised.listeners=PLAIN://127.0.0.1:$kafka_port,LOGIN://127.0.0.1:$sasl_port
		listener.security.protocol.map=PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
		inter.broker.listener.name=PLAIN
		listener.name.login.sasl.enabled.mechanisms=SCRAM-SHA-512
		listener.name.login.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
		log.dirs=$SMELT_HOME/kafka-broker/log
		auto.create.topics.enable=false
		message.max.bytes=33554432
		offsets.topic.replication.factor=1
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
		group.initial.rebalance.delay.ms=0
		log.cleaner.backoff.ms=500
	END
	kafka_java kafka.tools.StorageTool format --cluster-id c21lbHQtaW50ZXJvcC0wMQ --config "$SMELT_HOME/kafka-broker/server.properties" \
		--add-scram "SCRAM-SHA-512=[name=smelt,password=$kafka_password]" >/dev/null
}

kafka_java() {
	"$java/bin/java" -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
		-cp "$kept/interop/kafka-$kafka_version/*" "$@"
}

start_kafka() {
	local began=$SECONDS
	begin kafka kafka_java kafka.Kafka "$SMELT_HOME/kafka-broker/server.properties"
	kafka=$!
	must "Kafka did not start in time" await answers "$kafka_port"
	say "Kafka $kafka_version runs, after $((SECONDS - began)) s"
}

client() {
	"$kept/interop/confluent-kafka-$librdkafka_version/bin/python" "$root/scripts/interop/kafka.py" "127.0.0.1:$kafka_port" "$@"
}

the_demo() {
	say "the demo, on this broker"
	client topic sensor.readings 3
	"$root/scripts/start.sh" | tail -n 2
	readings kafka-001 500 2026-01-01 | "$root/bin/smelt" produce --topic sensor.readings
	must "500 readings did not arrive in gold, and 5 in quarantine, in time" await arrived kafka-001
	"$root/bin/smelt" verify
	halt generate
	halt run
}

# make_pipelines makes a pipeline a name, each with a topic of three partitions; ids tell the records apart.
make_pipelines() {
	local name dir
	for name in "$@"; do
		dir=$SMELT_HOME/pipelines/$name
		mkdir -p "$dir"
		cat >"$dir/pipeline.yml" <<-END
			source: {kafka: interop.$name}
			events:
			  time: made
			  columns: {id: bigint not null, made: timestamptz not null, pad: varchar}
			silver: {partition: day(made)}
			gold:
			  hourly: {window: 1h, column: hour}
		END
		echo "SELECT id, made, length(pad) AS padding, _partition_id, _partition_offset FROM bronze.$name" >"$dir/silver.sql"
		echo "SELECT date_trunc('hour', made) AS hour, count(*) AS n FROM silver.$name GROUP BY date_trunc('hour', made)" >"$dir/hourly.sql"
	done
	client topic interop.compacted 3 cleanup.policy=compact segment.bytes=1048576 min.cleanable.dirty.ratio=0.01 max.compaction.lag.ms=1000
	for name in "$@"; do client topic "interop.$name" 3; done
	export SMELT_PIPELINES=$SMELT_HOME/pipelines
}

start_run() {
	begin run "$root/bin/smelt" run
	run=$!
	must "the pipelines did not start in time" await ready run
}

# has waits until silver has that many rows of a pipeline, then checks that their ids are 0 to that, each once.
has() { # pipeline, rows
	must "$1 has $(query "SELECT count(*) FROM silver.$1") rows, and not $2" await counts "$1" "$2"
	same "$1: rows, ids, from, to" "$(query "SELECT concat_ws(' ', count(*), count(DISTINCT id), min(id), max(id)) FROM silver.$1")" "$2 $2 0 $(($2 - 1))"
	must "gold has $(query "SELECT sum(n) FROM gold.$1_hourly") of them" await in_gold "$1" "$2"
	"$root/bin/smelt" verify "$1"
}
counts() { [ "$(query "SELECT count(*) FROM silver.$1")" = "$2" ]; }
in_gold() { [ "$(query "SELECT sum(n) FROM gold.$1_hourly")" = "$2" ]; }

idempotent() {
	say "an idempotent producer: 60,000 records, a fifth of them in each codec"
	client send interop.exact 60000
	has exact 60000
}

transactions() {
	say "transactions: 20 committed, 20 aborted between them, and one whose producer died in it"
	local committed
	committed=$(client transact interop.transacted)
	has transacted "$committed"
	client send interop.transacted 300 "$committed" # they come after the open one, which the broker ends after ten seconds
	has transacted $((committed + 300))
	same "records of aborted transactions in bronze" "$(query "SELECT count(*) FROM bronze.transacted WHERE id < 0")" 0
}

compaction() {
	say "a compacted topic, with holes and tombstones"
	local told records left tombstones
	finish "$run" INT
	told=$(client compact interop.compacted)
	read -r records left tombstones <<<"$told"
	echo "  of $records records $left are left, $tombstones of them tombstones"
	[ "$left" -lt "$records" ] || fail "the topic was not compacted"
	start_run
	must "compacted records did not arrive in time" await counts compacted $((left - tombstones))
	same "bronze has what is left" "$(query "SELECT count(*) FROM bronze.compacted")" "$left"
	same "holes" "$(query "SELECT sum(w) > 0 FROM (SELECT max(_partition_offset) + 1 - count(*) AS w FROM bronze.compacted GROUP BY _partition_id)")" true
	"$root/bin/smelt" verify compacted
}

partitions_added() {
	say "partitions added under load, 3 to 6"
	local load sent
	begin load client load interop.grown 40 500
	load=$!
	must "the load does not arrive" await counting grown
	client grow interop.grown 6
	wait "$load" || fail "the producer failed"
	sent=$(sent_by load)
	has grown "$sent"
	same "first offset of each partition" "$(query "SELECT string_agg(o, ' ' ORDER BY p) FROM (SELECT _partition_id AS p, min(_partition_offset) AS o FROM silver.grown GROUP BY p)")" "0 0 0 0 0 0"
}
counting() { [ "$(query "SELECT count(*) FROM silver.$1")" -gt 0 ]; }
sent_by() { tail -n 1 "$SMELT_HOME/logs/$1.log"; }

broker_killed() {
	say "the broker is killed under load, and comes back"
	local load
	begin load-killed client load interop.killed 40 500
	load=$!
	must "the load does not arrive" await counting killed
	finish "$kafka" KILL
	read -rt 5 <> <(:) || true
	start_kafka
	wait "$load" || fail "the producer failed"
	has killed "$(sent_by load-killed)"
	kill -0 "$run" || fail "smelt run has ended"
}

sizes() {
	say "messages of 1 byte up to the bound of 8 MiB, and over it"
	local told
	told=$(client sizes interop.sized)
	has sized "$told"
	same "records over the bound, and too small to be an event" "$(query "SELECT string_agg(reason || ' ' || n, ' + ' ORDER BY reason) FROM (SELECT reason, count(*) AS n FROM quarantine.sized GROUP BY reason)")" "not an object 2 + not json 1 + too large 2"
	same "the longest padding" "$(query "SELECT max(padding) FROM silver.sized")" "$((8388608 - 47))"
}

log_in() {
	say "SASL/SCRAM: a wrong password, then the right one"
	local code=0
	finish "$run" INT
	export SMELT_KAFKA_BROKERS=127.0.0.1:$sasl_port SMELT_KAFKA_SASL_MECHANISM=SCRAM-SHA-512 SMELT_KAFKA_SASL_USERNAME=smelt
	SMELT_KAFKA_SASL_PASSWORD=wrong-password "$root/bin/smelt" run >"$SMELT_HOME/logs/refused.log" 2>&1 || code=$?
	same "exit code" "$code" 4
	grep -q 'refuses user \\\?"smelt' "$SMELT_HOME/logs/refused.log" || fail "it does not say so: $(tail -n 1 "$SMELT_HOME/logs/refused.log")"
	! grep -q wrong-password "$SMELT_HOME/logs/refused.log" || fail "it shows the password"
	export SMELT_KAFKA_SASL_PASSWORD=$kafka_password
	start_run
	client send interop.exact 1000 60000
	has exact 61000
	"$root/bin/smelt" verify
}
