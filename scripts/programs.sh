# Programs that are not smelt's own, without containers: how scripts fetch, start and end them. Sourced after demo.sh,
# not run. The script names itself in suite, and what it runs in component.

# The versions of what is fetched. A program that several scripts use is fetched once.
kafka_version=4.4.0
librdkafka_version=2.16.0 # confluent-kafka's
spark_version=3.5.7
pyiceberg_version=0.12.0
duckdb_version=1.5.5 # the newest of which the registry of Python's packages has the extensions

skipped=77 # the exit code of what was not tried
patience=180 # seconds that anything is waited for: a machine may have more to do
suite= # the script: interop, bench
component= # what runs of it

skip() {
	echo "$suite $component: SKIPPED, not tried: $*" >&2
	exit $skipped
}

# must runs a command; when it fails, so does the suite, for the reason given first.
must() {
	local why=$1
	shift
	"$@" || fail "$why"
}

fail() {
	echo "$suite $component: $*" >&2
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

# end_programs ends all that the script has started.
end_programs() {
	local group
	for group in $(jobs -p); do finish "$group"; done
}

# leave ends all that the suite has started, deletes its lake, and keeps the logs of one that failed.
leave() {
	local code=$1
	trap '' INT TERM
	end_programs
	if [ "$SMELT_HOME" != "$kept" ]; then
		if [ "$code" != 0 ] && [ "$code" != $skipped ] && [ -d "$SMELT_HOME/logs" ]; then
			mkdir -p "$kept/$suite"
			rm -rf "$kept/$suite/failed-$component"
			cp -R "$SMELT_HOME/logs" "$kept/$suite/failed-$component"
			echo "$suite $component: FAILED; its logs: $kept/$suite/failed-$component" >&2
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

# jars_of fetches artifacts, group:artifact:version, with all that they need to run, into the working folder.
jars_of() {
	local artifact group name version
	{
		echo '<project><modelVersion>4.0.0</modelVersion><groupId>smelt</groupId><artifactId>jars</artifactId><version>1</version><dependencies>'
		for artifact; do
			IFS=: read -r group name version <<<"$artifact"
			echo "<dependency><groupId>$group</groupId><artifactId>$name</artifactId><version>$version</version></dependency>"
		done
		echo '</dependencies></project>'
	} >pom.xml
	from_maven copy-dependencies -DincludeScope=runtime -DoutputDirectory=.
}

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
		if [ -n "$home" ] && [ -x "$home/bin/java" ] && [ "$("$home/bin/java" -XshowSettings:properties -version 2>&1 | sed -n 's/.*java.specification.version = //p')" -ge "$1" ] 2>/dev/null; then
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
	own_lake "$suite-$component"
	trap 'leave $?' EXIT
}

# start_stack starts the embedded services alone.
start_stack() {
	begin stack "$root/bin/smelt" stack
	must "the embedded services did not start in time" await ready stack
}

# ready says whether a command of smelt that runs in the background has got going.
ready() { grep -q ready "$SMELT_HOME/run/$1.pid" 2>/dev/null; }

# fetch_kafka fetches a broker with all that it depends on.
fetch_kafka() {
	cached "kafka-$kafka_version" jars_of "org.apache.kafka:kafka_2.13:$kafka_version" org.slf4j:slf4j-simple:1.7.36
}

kafka_java() {
	"$java/bin/java" -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
		-cp "$kept/interop/kafka-$kafka_version/*" "$@"
}

start_kafka() {
	local began=$SECONDS
	must "something else listens at Kafka's port" await silent "$kafka_port" # one that was killed may take a moment
	begin kafka kafka_java kafka.Kafka "$kafka_dir/server.properties"
	kafka=$!
	must "Kafka did not start in time" await answers "$kafka_port"
	say "Kafka $kafka_version runs, after $((SECONDS - began)) s"
}

silent() { ! answers "$1"; }
