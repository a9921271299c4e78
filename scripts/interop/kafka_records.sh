# Records that Apache Kafka and librdkafka put into a log otherwise than the embedded broker does; sourced by kafka.sh.

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

try_records() {
	client topic interop.compacted 3 cleanup.policy=compact segment.bytes=1048576 min.cleanable.dirty.ratio=0.01 max.compaction.lag.ms=1000
	make_pipelines records exact transacted compacted grown killed sized
	start_run
	idempotent
	transactions
	compaction
	partitions_added
	broker_killed
	sizes
	finish "$run" INT
}

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
