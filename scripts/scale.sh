#!/usr/bin/env bash
# Several processes on one lake, on the embedded stack: 1, 2 and 3 `smelt run` share a topic of 12 partitions under a
# steady stream. Each kind of them is killed, one is paused for 30 seconds in the middle of a step, PostgreSQL is
# killed in the middle of another; every time the others have to go on within ten seconds. In the end every record is counted.
#   scripts/scale.sh                 the show
#   scripts/scale.sh throughput [N]  how fast 1, 2 and 3 processes take N readings (600,000) from Kafka to gold
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$root/scripts/demo.sh"

partitions=12
within=10   # seconds that a takeover may take
rate=200    # readings a second
produced=0  # so far
declare -A process=() # the processes that run, by their folders' names

fail() {
	echo "scale: $*" >&2
	tail -n 3 "$SMELT_HOME"/p*/run.log >&2 2>/dev/null || true
	exit 1
}
wait_a() { read -rt "$1" <> <(:) || true; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }

# end ends all that runs on the lake, at once, and deletes it.
end() {
	local code=$1
	for p in "${!process[@]}"; do kill -9 "${process[$p]}" 2>/dev/null && gone "$p" || true; done
	kill "$stack" 2>/dev/null && wait "$stack" || true
	leave_lake
	[ "$code" = 0 ] || echo "scale: failed" >&2
}

stack() {
	trap 'end $?' EXIT
	"$root/bin/smelt" stack >"$SMELT_HOME/stack.out" 2>"$SMELT_HOME/stack.log" &
	stack=$!
	up() { [ -s "$SMELT_HOME/stack.out" ]; }
	await up || fail "the stack did not start: $(tail -n 3 "$SMELT_HOME/stack.log")"
}

# begin starts a process with a folder of its own, beside those that run: it is told where the lake is.
begin() { # name
	mkdir -p "$SMELT_HOME/$1"
	ln -sf "$SMELT_HOME/stack.env" "$SMELT_HOME/$1/stack.env"
	SMELT_HOME=$SMELT_HOME/$1 SMELT_HTTP=127.0.0.1:0 "$root/bin/smelt" run 2>>"$SMELT_HOME/$1/run.log" &
	process[$1]=$!
	started() { grep -q '"msg":"running"' "$SMELT_HOME/$1/run.log"; }
	await started "$1" || fail "$1 did not start"
}
name() { echo "$(hostname)-${process[$1]}"; } # as it calls itself
gone() { # name: it has ended
	wait "${process[$1]}" 2>/dev/null || true
	unset "process[$1]"
	rm "$SMELT_HOME/$1/run.log"
}

status() { "$root/bin/smelt" status sensors 2>/dev/null || true; }
line_of() { grep -F "process $(name "$1") on " || true; }
reads() { status | line_of "$1" | sed -n 's/.* reads partitions \([0-9 ]*\).*/\1/p' | wc -w; }
who() {
	local p
	status >"$SMELT_HOME/status"
	for p in "${!process[@]}"; do
		printf '  %s: %s\n' "$p" "$(line_of "$p" <"$SMELT_HOME/status" | sed 's/.* on [^ ]* //')"
	done | sort
}
# shared says whether the processes that run have all partitions between them, and each has some.
shared() {
	local p n sum=0
	status >"$SMELT_HOME/status"
	for p in "${!process[@]}"; do
		n=$(line_of "$p" <"$SMELT_HOME/status" | sed -n 's/.* reads partitions \([0-9 ]*\).*/\1/p' | wc -w)
		[ "$n" -gt 0 ] || return 1
		sum=$((sum + n))
	done
	[ "$sum" = $partitions ]
}
leader() { # the process that made the last step of silver
	local p
	status >"$SMELT_HOME/status"
	for p in "${!process[@]}"; do
		! line_of "$p" <"$SMELT_HOME/status" | grep -q 'silver.sensors' || { echo "$p"; return; }
	done
	echo p1
}
# holders are PostgreSQL's own processes that hold a lock of a table for somebody.
holders() { ps -o pid=,args= --ppid "$postmaster" | awk '/idle in transaction$/ { print $1 }'; }

# stream sends readings of now for some seconds, in the background.
stream() { # seconds
	local n=$(($1 * rate))
	readings $n | "$root/bin/smelt" produce --topic sensor.readings --partitions $partitions >/dev/null 2>&1 &
	streaming=$!
	produced=$((produced + n))
}
# A producer goes to another partition after 64 KiB: with the padding, three times a second.
readings() { # how many
	local i time pad
	printf -v pad '%1000s' ''
	for ((i = 0; i < $1; i++)); do
		if ((i % (rate / 10) == 0)); then
			wait_a 0.1
			time=$EPOCHREALTIME
			TZ=UTC printf -v time '%(%FT%T)T.%sZ' "${time%.*}" "${time#*.}"
		fi
		printf '{"sensor_id":"s-%03d","temperature":%d,"unit":"C","event_time":"%s","pad":"%s"}\n' $((i % 100)) $((i % 40)) "$time" "$pad"
	done
}
# through waits until silver has all that was sent, and says how long the slowest record took since a time.
through() { # since when
	wait "$streaming" || fail "the stream ended"
	has() { [ "$(query "SELECT count(*) FROM silver.sensors")" = $produced ]; }
	await has || fail "silver has $(query "SELECT count(*) FROM silver.sensors") rows, and not $produced"
	slowest=$(query "SELECT round(max(epoch(_ingested_at) - epoch(event_time)), 1) FROM silver.sensors WHERE epoch(event_time) >= $1")
	echo "  the slowest record was in silver after $slowest s"
}
# in_time fails when what a thing took is too long.
in_time() { # what, seconds
	printf '  %s %s s\n' "$1" "$2"
	awk -v s="$2" -v most=$within 'BEGIN { exit s > most }' || late+=("$1 $2 s")
}
late=()

# again waits until silver has records that were sent after a time, and sets $went to how long after it the first of
# them was taken.
again() { # since when
	fresh() { [ "$(query "SELECT count(*) > 0 FROM silver.sensors WHERE epoch(event_time) > $1")" = true ]; }
	every=0.1 await fresh "$1" || fail "silver does not go on"
	went=$(query "SELECT round(min(epoch(_ingested_at)) - $1, 1) FROM silver.sensors WHERE epoch(event_time) > $1")
}

show() {
	own_lake scale
	stack
	"$root/bin/smelt" produce --topic sensor.readings --partitions $partitions </dev/null 2>/dev/null
	postmaster=$(ps -o pid=,args= --ppid $stack | awk '/postgres -D/ { print $1; exit }')
	local n began p

	for n in 1 2 3; do
		say "$n of 3 processes"
		[ $n != 1 ] || begin p1
		began=$(now)
		stream 20
		if [ $n = 1 ]; then
			through "$began"
			continue
		fi
		begin p$n
		every=0.1 await shared || fail "the partitions were not shared out"
		echo "  the partitions were shared out anew after $(since "$began") s, with the start of the process"
		who
		through "$began"
	done

	say "the process that reads partitions is killed (kill -9)"
	stream 25
	wait_a 3
	began=$(now)
	kill -9 "${process[p2]}"
	gone p2
	every=0.1 await shared || fail "nobody took the partitions over"
	in_time "its partitions were taken over after" "$(since "$began")"
	who
	through "$began"
	begin p2
	await shared || fail "the partitions were not shared out"

	say "the process that leads silver is killed (kill -9)"
	stream 25
	wait_a 3
	p=$(leader)
	began=$(now)
	kill -9 "${process[$p]}"
	gone "$p"
	again "$began"
	in_time "silver went on without $p after" "$went"
	who
	through "$began"
	begin "$p"
	await shared || fail "the partitions were not shared out"

	say "the process that leads is paused in the middle of a step (SIGSTOP), for 30 s"
	stream 50
	wait_a 3
	pause_a_holder || fail "no process was caught with a lock"
	began=$(now)
	echo "  $paused is paused, and holds a lock"
	freed() { ! kill -0 "$held" 2>/dev/null; }
	every=0.1 await freed || fail "the lock of the paused process was not freed"
	in_time "PostgreSQL has freed its lock after" "$(since "$began")"
	again "$began"
	in_time "silver went on after" "$went"
	wait_a $((30 - ($(date +%s) - ${began%.*})))
	kill -CONT "${process[$paused]}"
	echo "  $paused goes on"
	woken() { grep -q 'lock lost' "$SMELT_HOME/$paused/run.log"; }
	await woken || fail "$paused does not say that it has lost its lock"
	through "$began"
	await shared || fail "the partitions were not shared out"
	"$root/bin/smelt" verify

	say "PostgreSQL is killed (kill -9) in the middle of a step, and comes back"
	stream 25
	wait_a 3
	caught() { held=$(holders | head -n 1); [ -n "$held" ]; }
	every=0.01 await caught || fail "no session was caught with a lock"
	began=$(now)
	kill -9 "$postmaster"
	answers() { "$root/bin/smelt" history silver.sensors >/dev/null 2>&1; }
	every=0.1 await answers || fail "PostgreSQL did not recover"
	echo "  PostgreSQL was back after $(since "$began") s"
	began=$(now)
	again "$began"
	in_time "silver went on after another" "$went"
	through "$began"

	say "a process is stopped (SIGTERM), as in a rolling restart"
	stream 20
	wait_a 3
	began=$(now)
	kill "${process[p3]}"
	gone p3
	echo "  it had drained and ended after $(since "$began") s"
	every=0.1 await shared || fail "nobody took the partitions over"
	in_time "its partitions were taken over after" "$(since "$began")"
	who
	through "$began"

	say "in the end"
	gold() { [ "$(query "SELECT sum(readings) FROM gold.sensors_hourly")" = $produced ]; }
	await gold || fail "gold has $(query "SELECT sum(readings) FROM gold.sensors_hourly"), and not $produced"
	"$root/bin/smelt" verify
	echo "$produced records were sent; silver has $(query "SELECT count(*) || ' of ' || count(DISTINCT (_partition_id, _partition_offset)) || ' offsets' FROM silver.sensors"), of $(query "SELECT count(DISTINCT _partition_id) FROM silver.sensors") partitions"
	for p in "${!process[@]}"; do kill "${process[$p]}" && gone "$p"; done
	[ ${#late[@]} = 0 ] || fail "took longer than $within s: ${late[*]}"
	echo "scale: passed"
}

# pause_a_holder pauses a process that holds a lock: $paused it is, and $held the session of PostgreSQL's.
pause_a_holder() {
	local before try
	for try in $(seq 200); do
		for paused in "${!process[@]}"; do
			before=$(holders)
			[ -n "$before" ] || continue
			kill -STOP "${process[$paused]}"
			wait_a 0.8 # the others' steps end meanwhile
			for held in $(holders); do
				# Its heartbeat would have moved the server's process on; a session that is still there is the paused one's.
				grep -qx "$held" <<<"$before" && [ "$(peer "$held")" = "${process[$paused]}" ] && return
			done
			kill -CONT "${process[$paused]}"
		done
		wait_a 0.02
	done
	return 1
}
# peer is the process on the other end of a session, by its port.
peer() {
	local port
	port=$(ps -o args= -p "$1" | sed -n 's/.*127\.0\.0\.1(\([0-9]*\)).*/\1/p')
	[ -n "$port" ] && ss -Htnp "sport = :$port" | sed -n 's/.*pid=\([0-9]*\),.*/\1/p' | head -n 1
}

throughput() {
	local total=${1:-600000} n began i
	case $total in '' | *[!0-9]*) sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;; esac
	for n in 1 2 3; do
		own_lake scale
		stack
		awk -v n="$total" 'BEGIN { for (i = 1; i <= n; i++)
			printf "{\"sensor_id\":\"s-%03d\",\"temperature\":%d,\"unit\":\"C\",\"event_time\":\"2026-11-29T%02d:%02d:00Z\"}\n", i % 100, i % 40, i % 24, i % 60
		}' | "$root/bin/smelt" produce --topic sensor.readings --partitions $partitions >/dev/null 2>&1
		produced=$total
		began=$(now)
		for i in $(seq $n); do
			mkdir -p "$SMELT_HOME/p$i"
			ln -sf "$SMELT_HOME/stack.env" "$SMELT_HOME/p$i/stack.env"
			SMELT_HOME=$SMELT_HOME/p$i SMELT_HTTP=127.0.0.1:0 "$root/bin/smelt" run 2>>"$SMELT_HOME/p$i/run.log" &
			process[p$i]=$!
		done
		gold() { [ "$(query "SELECT sum(readings) FROM gold.sensors_hourly" 2>/dev/null)" = "$produced" ]; }
		patience=600 every=0.2 await gold || fail "gold has not got all"
		awk -v n=$n -v total="$total" -v s="$(since "$began")" 'BEGIN { printf "%d processes: %d readings in gold after %.1f s, %d a second\n", n, total, s, total / s }'
		"$root/bin/smelt" verify
		for i in "${!process[@]}"; do kill "${process[$i]}" && gone "$i"; done
		leave_lake
	done
}

build
case ${1:-} in
'') show ;;
throughput) throughput "${2:-}" ;;
*) sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
