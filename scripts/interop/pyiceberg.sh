# pyiceberg reads what smelt connect pyiceberg tells it, of a lake whose pipeline has been changed in between and to
# which nothing writes; sourced by interop.sh.

try_pyiceberg() {
	need python3
	cached "pyiceberg-$pyiceberg_version" python_with "pyiceberg[sql-postgres,pyarrow]==$pyiceberg_version"
	demo_lake
	say "the pipeline is changed, twice: columns are added, then widened, and silver is partitioned otherwise"
	pause
	export SMELT_PIPELINES=$SMELT_HOME/pipelines
	mkdir "$SMELT_PIPELINES"
	cp -R "$root/sql/sensors" "$SMELT_PIPELINES/"
	change silver.sql 's/^    _partition_id,/    temperature::FLOAT AS raw, (temperature * 10)::INTEGER AS tenths, temperature::DECIMAL(9, 2) AS exact,\n    {"tenths": (temperature * 10)::INTEGER} AS nested, [(temperature * 10)::INTEGER] AS listed,\n&/'
	go_on 2026-01-03
	change silver.sql 's/::FLOAT/::DOUBLE/; s/::INTEGER/::BIGINT/g; s/DECIMAL(9, 2)/DECIMAL(20, 2)/; s/} AS nested/, "unit": unit} AS nested/'
	change pipeline.yml 's/partition: .*/partition: [city, month(event_time)]/'
	go_on 2026-01-04
	hostile_line
	say "the generator and the pipeline have stopped: from here on the counts stand still"
	(umask 077 && "$root/bin/smelt" connect pyiceberg >"$SMELT_HOME/.pyiceberg.yaml")
	PYICEBERG_HOME=$SMELT_HOME "$kept/interop/pyiceberg-$pyiceberg_version/bin/python" "$root/scripts/interop/reads.py" "$root/scripts/query.sh"
}

# change edits a file of the pipeline.
change() { # file, what sed does
	sed -i.before "$2" "$SMELT_PIPELINES/sensors/$1"
	! cmp -s "$SMELT_PIPELINES/sensors/$1" "$SMELT_PIPELINES/sensors/$1.before" || fail "$1 has changed, so that it is not edited: $2"
	rm "$SMELT_PIPELINES/sensors/$1.before"
}

# go_on has the pipeline, as it is now, take readings of a day, and stops it.
go_on() { # day
	resume
	readings "$component-$1" 100 "$1" | "$root/bin/smelt" produce --topic sensor.readings
	must "100 readings of $1 did not arrive in gold within a minute" await of_day "$1"
	pause
}

of_day() { [ "$(query "SELECT sum(readings) FROM gold WHERE hour::DATE = '$1'")" = 100 ]; }
