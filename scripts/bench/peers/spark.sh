# Apache Spark with Iceberg; sourced by peers.sh.

kafka_of_spark=3.4.1 # the client that Spark's Kafka source is built with
pool_of_spark=2.11.1 # commons-pool2
about_spark="Two cores, 4 GiB of heap, the parallel collector, 4 partitions of a shuffle, no shuffle before a write."

fetch_spark() {
	cached "pyspark-$spark_version" python_with "pyspark==$spark_version"
	cached "spark-peer-$spark_version-$iceberg_version" jars_of_spark
}

# jars_of_spark fetches what PyPI's Spark lacks, and nothing that it has.
jars_of_spark() {
	local artifact
	for artifact in "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:$iceberg_version" "org.apache.iceberg:iceberg-aws-bundle:$iceberg_version" \
		"org.postgresql:postgresql:$postgresql_version" "org.apache.spark:spark-sql-kafka-0-10_2.12:$spark_version" \
		"org.apache.spark:spark-token-provider-kafka-0-10_2.12:$spark_version" "org.apache.kafka:kafka-clients:$kafka_of_spark" \
		"org.apache.commons:commons-pool2:$pool_of_spark"; do
		from_maven copy "-Dartifact=$artifact" -DoutputDirectory=. || return 1
	done
}

take_spark() { # batch or stream
	local cpu took all
	say "Spark $spark_version with Iceberg $iceberg_version, $1: a table without duplicates, and aggregates by the minute"
	spark "$1" "$SMELT_KAFKA_BROKERS" "$SMELT_HOME/checkpoints" \
		"$rehearsal" "spark_$1_rehearsal" "$topic" "spark_$1"
	read -r cpu took all <<<"$said"
	same "rows and keys of peers.spark_$1_silver" "$(tables unique "peers.spark_$1_silver" tenantId eventId)" "$unique $unique"
	same "rows and events of peers.spark_$1_gold" "$(tables sum "peers.spark_$1_gold" events)" "$minutes $unique"
	measured "Spark, $1" "$cpu" "$took" "$all"
}

# spark runs spark.py. Its settings hold passwords: they are in a file, since others can see the arguments of a program.
spark() { # batch, stream or create, arguments…
	export SPARK_CONF_DIR=$SMELT_HOME/spark-conf SPARK_LOCAL_IP=127.0.0.1
	mkdir -p "$SPARK_CONF_DIR"
	(umask 077 && write_spark_conf >"$SPARK_CONF_DIR/spark-defaults.conf")
	attend "spark-$1" python "pyspark-$spark_version" spark "$@"
}

write_spark_conf() {
	cat "$SMELT_HOME/lake.conf"
	cat <<-END
		spark.jars $(printf '%s\n' "$kept/interop/spark-peer-$spark_version-$iceberg_version"/*.jar | paste -sd,)
		spark.driver.memory 4g
		spark.driver.extraJavaOptions -XX:+UseParallelGC
		spark.driver.host 127.0.0.1
		spark.driver.bindAddress 127.0.0.1
		spark.ui.enabled false
		spark.ui.showConsoleProgress false
		spark.sql.session.timeZone UTC
		spark.sql.shuffle.partitions 4
		spark.sql.streaming.stateStore.providerClass org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
		spark.local.dir $SMELT_HOME/spark
	END
}
