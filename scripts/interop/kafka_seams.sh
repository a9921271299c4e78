# Logs that do not continue what the lake has (DESIGN.md, "A seam"): they stop, an operator decides, and every record that
# a log has held is there once; sourced by kafka.sh.

try_seams() {
	make_pipelines seams fewer more beside pending deleted grown_again marked cut idle
	start_run
	recreated
	open_transaction
	deleted_unread
	end_lost
	end_lost_meanwhile
	"$root/bin/smelt" verify
	finish "$run" INT
	cluster_replaced
}

# stopped waits until a pipeline's line says why it is stopped, and looks whether everybody says so, of so many partitions.
stopped() { # pipeline, how many, words of the reason
	local began=$SECONDS
	must "/readyz?verbose does not say of $1 that '$3'" await unready "$1" "$3"
	same "$1: /readyz after $((SECONDS - began)) s" "$(page readyz -o /dev/null -w '%{http_code}')" 503
	must "smelt_stopped_partitions of $1 is not $2" await is_gauged "$1" "$2"
	same "$1: smelt_stopped_partitions" "$(gauged "$1")" "$2"
	said "partition [0-9]* of $1 is stopped: .*$3" || fail "the log does not say '$3'"
	"$root/bin/smelt" status "$1" | grep -q "is not read: .*$3" || fail "status does not say '$3': $("$root/bin/smelt" status "$1")"
	"$root/bin/smelt" source "$1"
}
unready() { page 'readyz?verbose' | grep -q "bronze.$1: .*$2"; }
gauged() { page metrics | sed -n "s/^smelt_stopped_partitions{pipeline=\"$1\"} //p"; }
is_gauged() { [ "$(gauged "$1")" = "$2" ]; }
page() { curl -sS "${@:2}" "http://$SMELT_HTTP/$1"; }

# goes_on decides, and waits until nothing of the pipeline is stopped.
goes_on() { # pipeline, the decision
	"$root/bin/smelt" source "${@:2}" "$1" --yes --why "interop"
	must "$1 does not go on" await is_gauged "$1" 0
}

# both_sides traces a record on each side of a seam: the last one with an id below that, and the first one that has it.
both_sides() { # pipeline, the first id after the seam
	local side at
	for side in "id < $2 ORDER BY id DESC" "id >= $2 ORDER BY id"; do
		at=$(query "SELECT concat_ws(':', _partition_id, _partition_offset) FROM silver.$1 WHERE $side LIMIT 1")
		echo "  smelt trace $1 $at"
		"$root/bin/smelt" trace "$1" "$at" | grep -E '^[a-z]|  value ' | sed 's/^/    /'
		same "its id" "$("$root/bin/smelt" trace --json "$1" "$at" | grep -o '"id":[0-9]*' | head -n 1)" "\"id\":$(query "SELECT id FROM silver.$1 WHERE $side LIMIT 1")"
	done
}

# in_bronze compares the records of bronze that have an id with those that there should be.
in_bronze() { # pipeline, rows
	same "$1: rows and ids in bronze" "$(query "SELECT concat_ws(' ', count(*), count(DISTINCT id)) FROM bronze.$1")" "$2 $2"
}

recreated() {
	say "topics deleted and re-created under a running line, with fewer records than before and with more; a third one goes on"
	local name
	for name in fewer more beside; do client send "interop.$name" 600; done
	for name in fewer more beside; do has "$name" 600; done
	client recreate interop.fewer 3
	client send interop.fewer 60 600
	client recreate interop.more 3
	client send interop.more 1800 600
	client send interop.beside 600 600
	stopped fewer 3 "it was deleted and re-created"
	stopped more 3 "it was deleted and re-created"
	has beside 1200
	goes_on fewer switch
	goes_on more switch
	has fewer 660
	in_bronze fewer 660
	has more 2400
	in_bronze more 2400
	both_sides fewer 600
	both_sides more 600
}

open_transaction() {
	say "a topic re-created again, in which a transaction is open while switch picks where to go on; then it is committed"
	local readable
	client send interop.pending 300
	has pending 300
	client recreate interop.pending 3
	client send interop.pending 300 300
	hold pending 300 600
	client send interop.pending 600 900
	stopped pending 3 "it was deleted and re-created"
	goes_on pending switch
	readable=$(($(client ends interop.pending committed | tr ' ' +)))
	must "what is before the transaction does not come" await counts pending $((300 + readable))
	same "pending: rows of the open transaction" "$(query "SELECT count(*) FROM silver.pending WHERE id BETWEEN 600 AND 899")" 0
	commit pending
	has pending 1500
	in_bronze pending 1500
}

# hold begins a transaction on a pipeline's topic, which commit ends.
hold() { # pipeline, how many records, the first id
	begin "holder-$1" client hold "interop.$1" "$2" "$3" "$SMELT_HOME/commit-$1"
	holder=$!
	must "the transaction was not begun" await held "$1"
}
commit() {
	touch "$SMELT_HOME/commit-$1"
	wait "$holder" || fail "the transaction was not committed"
}
held() { grep -q held "$SMELT_HOME/logs/holder-$1.log"; }

deleted_unread() {
	say "records deleted from the topic (DeleteRecords) before they were read"
	client send interop.deleted 600
	has deleted 600
	finish "$run" INT
	client discard interop.deleted 300
	client send interop.deleted 600 600
	start_run
	stopped deleted 3 "was deleted before it was read"
	goes_on deleted accept-gap
	has deleted 1200
	in_bronze deleted 1200
	both_sides deleted 600
}

# cut_log kills the broker, takes the last part of the logs of topics' first partitions away, as a machine does that has
# not written to its disk what it said it had, and starts the broker again.
cut_log() { # topics
	local topic log before=() after
	for topic in "$@"; do before+=("$(client ends "$topic")"); done
	finish "$kafka" KILL
	for topic in "$@"; do
		log=$kafka_dir/log/$topic-0/00000000000000000000.log
		truncate -s $(($(stat -c %s "$log") * 6 / 10)) "$log"
	done
	start_kafka
	for topic in "$@"; do
		after=$(client ends "$topic")
		echo "  $topic: its partitions ended at ${before[0]}, and end at $after"
		[ "${after%% *}" -lt "${before[0]%% *}" ] && [ "${after%% *}" -gt 0 ] || fail "the log was not cut"
		before=("${before[@]:1}")
	done
}

end_lost() {
	say "a log that loses its end while smelt is stopped, and has grown past our position when smelt runs again; a transaction that is open meanwhile"
	client send interop.grown_again 600
	has grown_again 600
	finish "$run" INT
	hold marked 600 0
	cut_log interop.grown_again
	commit marked # its marks are of another leader's epoch than its records
	client send interop.grown_again 1800 600
	start_run
	stopped grown_again 1 "the log has lost records"
	goes_on grown_again switch
	has grown_again 2400
	in_bronze grown_again 2400
	both_sides grown_again 600
	has marked 600
	same "marked: partitions stopped" "$("$root/bin/smelt" source marked | grep -c stopped)" 0
}

end_lost_meanwhile() {
	say "logs that lose their ends while smelt runs, and grow past our positions: one that is read, and one that was idle since smelt began"
	local name
	for name in cut idle; do client send "interop.$name" 600; done
	for name in cut idle; do has "$name" 600; done
	finish "$run" INT
	start_run
	client send interop.cut 300 600
	has cut 900
	cut_log interop.cut interop.idle
	client send interop.cut 1800 900
	client send interop.idle 1800 600
	for name in cut idle; do
		stopped "$name" 1 "the log has lost records"
		goes_on "$name" switch
	done
	has cut 2700
	in_bronze cut 2700
	has idle 2400
	in_bronze idle 2400
}

cluster_replaced() {
	say "another cluster at the same address, under a running line"
	make_pipelines replaced replaced
	start_run
	client send interop.replaced 600
	has replaced 600
	finish "$kafka" KILL
	format_kafka c21lbHQtaW50ZXJvcC0wMg
	start_kafka
	client topic interop.replaced 3
	client send interop.replaced 900 600
	stopped replaced 3 "cluster c21lbHQtaW50ZXJvcC0wMg took the place of cluster c21lbHQtaW50ZXJvcC0wMQ"
	goes_on replaced switch
	has replaced 1500
	in_bronze replaced 1500
	both_sides replaced 600
	finish "$run" INT
}
