# DuckDB reads what smelt connect duckdb tells it, of a lake to which nothing writes; sourced by interop.sh.

try_duckdb() {
	need python3
	cached "duckdb-$duckdb_version" python_with "duckdb==$duckdb_version"
	demo_lake
	"$root/bin/smelt" locate hel-001 Helsinki Finland >/dev/null
	"$root/bin/smelt" backfill sensors --reference-changes --yes | sed -n 1p
	say "the generator and the pipeline stop: from here on the counts stand still"
	pause
	hostile_line
	say "DuckDB reads the tables"
	install -m 600 /dev/null "$SMELT_HOME/lake.sql"
	{
		echo "SET extension_directory = '$SMELT_HOME/extensions';" # where smelt has put them: INSTALL finds them there
		"$root/bin/smelt" connect duckdb
	} >"$SMELT_HOME/lake.sql"
	"$kept/interop/duckdb-$duckdb_version/bin/python" "$root/scripts/interop/agree.py" "$root/scripts/query.sh" duckdb "$SMELT_HOME/lake.sql" tables past hostile
}
