# Apache Iceberg's sink for Kafka Connect; sourced by peers.sh.

connect_version=4.3.1 # the worker of 4.4.0 fails: NoClassDefFoundError AppInfoParser
hadoop_version=3.4.2 # Parquet's writer needs its classes
about_connect="One task, a commit every 10 seconds, polls of 500 records, 2 GiB of heap, the parallel collector, JSON without schemas."

fetch_connect() {
	cached "kafka-connect-$connect_version" jars_of "org.apache.kafka:connect-runtime:$connect_version" "org.apache.kafka:connect-json:$connect_version" \
		org.slf4j:slf4j-simple:1.7.36
	cached "iceberg-kafka-connect-$iceberg_version" jars_of "org.apache.iceberg:iceberg-kafka-connect:$iceberg_version" \
		"org.apache.iceberg:iceberg-parquet:$iceberg_version" "org.apache.iceberg:iceberg-aws:$iceberg_version" \
		"org.apache.iceberg:iceberg-aws-bundle:$iceberg_version" "org.apache.hadoop:hadoop-client-runtime:$hadoop_version" \
		"org.postgresql:postgresql:$postgresql_version"
}

take_connect() {
	local port connect cpu took all
	say "Kafka Connect $connect_version with Iceberg's sink $iceberg_version: appends to a table"
	spark create peers.kafka_connect_rehearsal peers.kafka_connect
	make_topic control-peers-0 1
	make_topic control-peers-1 1
	port=$(free_port 12500)
	write_worker "$port"
	begin connect "$java/bin/java" -Xmx2g -XX:+UseParallelGC -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss \
		-cp "$kept/interop/kafka-connect-$connect_version/*" org.apache.kafka.connect.cli.ConnectStandalone "$SMELT_HOME/worker.properties"
	connect=$!
	attend sink python "pyiceberg-$pyiceberg_version" connect "http://127.0.0.1:$port" "$connect" "$SMELT_HOME/lake.conf" \
		"$rehearsal" peers.kafka_connect_rehearsal "$rehearsed" "$topic" peers.kafka_connect "$events"
	finish "$connect"
	read -r cpu took all <<<"$said"
	same "rows and keys of peers.kafka_connect" "$(tables unique peers.kafka_connect tenantId eventId)" "$events $unique"
	measured "Kafka Connect" "$cpu" "$took" "$all"
}

# write_worker writes the settings of the worker. A sink takes part in a commit only when its poll returns: in a topic that has
# come to its end that is once in a flush interval, a minute by default.
write_worker() { # its port
	mkdir -p "$SMELT_HOME/plugins"
	ln -s "$kept/interop/iceberg-kafka-connect-$iceberg_version" "$SMELT_HOME/plugins/iceberg"
	cat >"$SMELT_HOME/worker.properties" <<-END
		bootstrap.servers=$SMELT_KAFKA_BROKERS
		listeners=http://127.0.0.1:$1
		offset.storage.file.filename=$SMELT_HOME/connect.offsets
		offset.flush.interval.ms=1000
		plugin.path=$SMELT_HOME/plugins
		plugin.discovery=service_load
		key.converter=org.apache.kafka.connect.converters.ByteArrayConverter
		value.converter=org.apache.kafka.connect.json.JsonConverter
		value.converter.schemas.enable=false
	END
}
