# Shared by the suites of interop.sh; sourced, not run.

skipped=77 # the exit code of a suite that was not tried
patience=180 # seconds that anything is waited for: a machine may have more to do
component= # the suite that runs

skip() {
	echo "interop $component: SKIPPED, not tried: $*" >&2
	exit $skipped
}

# must runs a command; when it fails, so does the suite, for the reason given first.
must() {
	local why=$1
	shift
	"$@" || fail "$why"
}

fail() {
	echo "interop $component: $*" >&2
	exit 1
}

# same compares what two sides say.
same() { # what, one, other
	[ "$2" = "$3" ] || fail "$1: '$2' and '$3' differ"
	echo "  $1: $2"
}

# begin starts a program in the background, in a process group of its own: Ctrl-C does not reach it, so that the
# suite ends it, whatever ends the suite. It says no more than its log has. $! is its process.
begin() { # name, command…
	local name=$1
	shift
	mkdir -p "$SMELT_HOME/logs"
	set -m
	"$@" >>"$SMELT_HOME/logs/$name.log" 2>&1 </dev/null &
	set +m
}

# finish ends a program of begin's: as it wants to within 15 seconds, else at once. It waits by "wait" alone: in a trap
# the shell may not notice otherwise that a child has ended. Its own word that one was killed stays out of the suite's.
finish() { # its process, the signal
	local late
	kill "-${2:-TERM}" -- "-$1" || return 0
	set -m
	(sleep 15 && kill -KILL -- "-$1") &
	late=$!
	set +m
	wait "$1" || true
	kill -KILL -- "-$1" "-$late" || true # with what the program has left behind
	wait "$late" || true
} 2>/dev/null

# leave ends all that the suite has started, deletes its lake, and keeps the logs of one that failed.
leave() {
	local code=$1 group
	trap '' INT TERM
	for group in $(jobs -p); do finish "$group"; done
	if [ "$SMELT_HOME" != "$kept" ]; then
		if [ "$code" != 0 ] && [ "$code" != $skipped ] && [ -d "$SMELT_HOME/logs" ]; then
			rm -rf "$kept/interop/failed-$component"
			cp -R "$SMELT_HOME/logs" "$kept/interop/failed-$component"
			echo "interop $component: FAILED; its logs: $kept/interop/failed-$component" >&2
		fi
		leave_lake
	fi
}
trap 'leave $?' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# cached fills a folder in the state folder, once, by a command that runs there; meanwhile it says how far it is.
# What the command says stays in a log beside the folder; the suite is skipped when it fails.
cached() { # name, command…
	local name=$1 dir="$kept/interop/$1" began=$SECONDS filling
	shift
	[ ! -f "$dir/complete" ] || return 0
	say "$name: fetched once, into $dir"
	rm -rf "$dir"
	mkdir -p "$dir"
	set -m
	(cd "$dir" && "$@") >"$dir.log" 2>&1 </dev/null &
	set +m
	filling=$!
	while kill -0 "$filling" 2>/dev/null; do
		read -rt 1 <> <(:) || true
		[ $(((SECONDS - began) % 10)) != 9 ] || echo "   $((SECONDS - began + 1)) s, $(du -sh "$dir" | cut -f 1)B" >&2
	done
	wait "$filling" || skip "$name could not be had: $(grep -iE 'error|refused|failure' "$dir.log" | grep -v '^\[INFO' | head -n 1 | cut -c 1-200); see $dir.log"
	touch "$dir/complete"
}

# from_maven runs a goal of Maven's dependency plugin.
from_maven() { mvn -B -ntp "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:$1" "${@:2}"; }

# python_with makes a Python environment with packages in it, in the working folder.
python_with() {
	python3 -m venv . && bin/python -m pip install --quiet --disable-pip-version-check "$@"
}

# need skips the suite where a program is not on the PATH.
need() {
	command -v "$1" >/dev/null || skip "$1 is not on the PATH"
}

# java_of prints the home of a Java of at least a version.
java_of() {
	local home
	for home in "${JAVA_HOME:-}" /usr/lib/jvm/* "$(dirname "$(dirname "$(readlink -f "$(command -v java || echo /none/bin/java)")")")"; do
		if [ -x "$home/bin/java" ] && [ "$("$home/bin/java" -XshowSettings:properties -version 2>&1 | sed -n 's/.*java.specification.version = //p')" -ge "$1" ] 2>/dev/null; then
			echo "$home"
			return
		fi
	done
	return 1
}

# answers waits until somebody listens at a port of this machine.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# lake_of_its_own is own_lake, after which the suite still ends as it does here.
lake_of_its_own() {
	build
	own_lake "interop-$component"
	trap 'leave $?' EXIT
}

# start_stack starts the embedded services alone.
start_stack() {
	begin stack "$root/bin/smelt" stack
	must "the embedded services did not start in time" await ready stack
}

# ready says whether a command of smelt that runs in the background has got going.
ready() { grep -q ready "$SMELT_HOME/run/$1.pid" 2>/dev/null; }

# demo_lake makes a lake that holds the demo's readings, 500 of a day long past and a few that are rejected.
demo_lake() {
	lake_of_its_own
	say "a lake of its own"
	"$root/scripts/start.sh" | tail -n 2
	readings "$component-001" 500 2026-01-01 | "$root/bin/smelt" produce --topic sensor.readings
	must "500 readings did not arrive in gold, and 5 in quarantine, in time" await arrived "$component-001"
}

# readings writes some of a sensor's on a day, and five that are rejected.
readings() { # sensor, how many, day
	local i
	for i in $(seq 0 $(($2 - 1))); do
		printf '{"sensor_id":"%s","temperature":%d,"unit":"C","event_time":"%sT%02d:00:00Z"}\n' "$1" "$((i % 40))" "$3" "$((i % 24))"
	done
	for i in $(seq 0 4); do
		printf '{"sensor_id":"%s","temperature":"%d","unit":"C","event_time":"%sT00:00:00Z"}\n' "$1" "$i" "$3"
	done
}

arrived() {
	[ "$(query "SELECT sum(readings) FROM gold WHERE hour < '2026-01-02'")" = 500 ] &&
		[ "$(query "SELECT count(*) FROM quarantine.sensors WHERE raw LIKE '%$1%'")" = 5 ]
}

# hostile_line has another pipeline, whose silver is parted by tenants with names that are hard to tell (hostile.py), take
# their events; it leaves nothing running. What its objects are called has nothing of them.
hostile_line() {
	local dir=$SMELT_HOME/pipelines/hostile odd
	export SMELT_PIPELINES=$SMELT_HOME/pipelines
	[ -d "$SMELT_PIPELINES" ] || cp -R "$root/sql/." "$SMELT_PIPELINES"
	mkdir "$dir"
	cat >"$dir/pipeline.yml" <<-'END'
		source: {kafka: interop.Hostile-Names_1}
		events:
		  time: made
		  columns: {tenant: varchar, n: bigint not null, made: timestamptz not null, "Sp ace/%=é😀": varchar}
		silver: {partition: [tenant, day(made)]}
		gold:
		  select: {window: 1h, column: hour}
	END
	echo 'SELECT tenant, n, made, "Sp ace/%=é😀", _partition_id, _partition_offset FROM bronze.hostile' >"$dir/silver.sql"
	echo "SELECT date_trunc('hour', made) AS hour, tenant, count(*) AS n FROM silver.hostile GROUP BY ALL" >"$dir/select.sql"
	python3 "$root/scripts/interop/hostile.py" | "$root/bin/smelt" produce --topic interop.Hostile-Names_1 --partitions 2
	resume
	must "the events of odd tenants did not arrive in gold in time" await hostile_arrived
	pause
	"$root/bin/smelt" verify
	odd=$(cd "$SMELT_HOME/s3" && find . -path '*hostile*' | LC_ALL=C grep -v '^[A-Za-z0-9_./-]*$' || true)
	[ -z "$odd" ] || fail "objects are named for values: $odd"
}
hostile_arrived() { [ "$(query "SELECT (SELECT sum(n) FROM gold.hostile_select) + (SELECT count(*) FROM quarantine.hostile)")" = 174 ]; }

# halt ends a command of smelt that runs in the background, as a signal would: the pipeline drains.
halt() {
	kill "$(pid "$1")"
	must "smelt $1 did not stop in time" await ended "$1"
}
ended() { [ -z "$(pid "$1")" ]; }

# pause stops the generator and the pipeline: the counts stand still.
pause() {
	halt generate
	halt run
}

# resume starts them again.
resume() { "$root/scripts/start.sh" 2>/dev/null | tail -n 2 | head -n 1; }

# caught_up says whether silver and quarantine have so many records, and gold those of silver.
caught_up() {
	[ "$(query "SELECT (SELECT count(*) FROM silver) + (SELECT count(*) FROM quarantine.sensors)")" -ge "$1" ] &&
		[ "$(query "SELECT (SELECT sum(readings) FROM gold) + (SELECT count(*) FROM quarantine.sensors)")" -ge "$1" ]
}

# settled is all of gold's windows that no reading comes to any more, with when they were computed.
settled() { query "SELECT * FROM gold WHERE hour < '2026-01-02' ORDER BY hour, city"; }

# said says whether the pipeline has logged something.
said() { grep -q "$1" "$SMELT_HOME/logs/run.log"; }
