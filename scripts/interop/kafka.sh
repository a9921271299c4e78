# A broker of Apache Kafka's, and librdkafka's producers: what they do that the embedded broker does not, or otherwise;
# sourced by interop.sh.
. "$root/scripts/interop/kafka_records.sh"
. "$root/scripts/interop/kafka_access.sh"
. "$root/scripts/interop/kafka_seams.sh"

kafka_password=right-password

try_kafka() {
	need python3
	need mvn
	need curl
	need openssl
	java=$(java_of 17) || skip "Kafka $kafka_version needs Java 17 or later, and none is in JAVA_HOME, /usr/lib/jvm or on the PATH"
	fetch_kafka
	cached "confluent-kafka-$librdkafka_version" python_with "confluent-kafka==$librdkafka_version"
	lake_of_its_own
	certificates broker reader writer watcher
	kafka_ports
	format_kafka c21lbHQtaW50ZXJvcC0wMQ
	start_kafka
	start_stack
	export SMELT_KAFKA_BROKERS=127.0.0.1:$kafka_port

	the_demo
	try_records
	try_access
	try_seams
}

kafka_ports() {
	kafka_port=$(free_port 15000) sasl_port=$(free_port 12500) tls_port=$(free_port 17500) controller_port=$(free_port 10000)
}

# format_kafka makes the folder of a broker that is its own controller: a listener without a log-in, whose users may do
# anything, one with, and one that wants a certificate. There may have been another broker before.
format_kafka() { # the cluster's id
	kafka_dir=$SMELT_HOME/kafka-$1
	mkdir -p "$kafka_dir"
	cat >"$kafka_dir/server.properties" <<-END
		process.roles=broker,controller
		node.id=1
		controller.quorum.voters=1@127.0.0.1:$controller_port
		controller.listener.names=CONTROLLER
		listeners=PLAIN://127.0.0.1:$kafka_port,LOGIN://127.0.0.1:$sasl_port,MUTUAL://127.0.0.1:$tls_port,CONTROLLER://127.0.0.1:$controller_port
		advertised.listeners=PLAIN://127.0.0.1:$kafka_port,LOGIN://127.0.0.1:$sasl_port,MUTUAL://127.0.0.1:$tls_port
		listener.security.protocol.map=PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,MUTUAL:SSL,CONTROLLER:PLAINTEXT
		inter.broker.listener.name=PLAIN
		listener.name.login.sasl.enabled.mechanisms=SCRAM-SHA-512
		listener.name.login.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
		listener.name.mutual.ssl.client.auth=required
		listener.name.mutual.ssl.keystore.type=PEM
		listener.name.mutual.ssl.keystore.location=$SMELT_HOME/certificates/broker.both
		listener.name.mutual.ssl.truststore.type=PEM
		listener.name.mutual.ssl.truststore.location=$SMELT_HOME/certificates/ca.crt
		authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
		super.users=User:ANONYMOUS;User:smelt
		log.dirs=$kafka_dir/log
		auto.create.topics.enable=false
		message.max.bytes=33554432
		offsets.topic.replication.factor=1
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
		group.initial.rebalance.delay.ms=0
		log.cleaner.backoff.ms=500
	END
	kafka_java kafka.tools.StorageTool format --cluster-id "$1" --config "$kafka_dir/server.properties" \
		--add-scram "SCRAM-SHA-512=[name=smelt,password=$kafka_password]" >/dev/null
}

client() {
	"$kept/interop/confluent-kafka-$librdkafka_version/bin/python" "$root/scripts/interop/kafka.py" "127.0.0.1:$kafka_port" "$@"
}

# make_pipelines makes a folder of pipelines, each with a topic of three partitions, and has smelt use it; ids tell the
# records apart.
make_pipelines() { # folder, pipelines…
	local name dir
	export SMELT_PIPELINES=$SMELT_HOME/$1
	shift
	for name in "$@"; do
		dir=$SMELT_PIPELINES/$name
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
		client topic "interop.$name" 3
	done
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
