# pyiceberg reads what smelt connect pyiceberg tells it, of a lake to which nothing writes; sourced by interop.sh.

try_pyiceberg() {
	need python3
	cached pyiceberg-0.12.0 python_with 'pyiceberg[sql-postgres,pyarrow]==0.12.0'
	demo_lake
	say "the generator and the pipeline stop: from here on the counts stand still"
	pause
	say "pyiceberg reads the tables"
	(umask 077 && "$root/bin/smelt" connect pyiceberg >"$SMELT_HOME/.pyiceberg.yaml")
	PYICEBERG_HOME=$SMELT_HOME "$kept/interop/pyiceberg-0.12.0/bin/python" "$root/scripts/interop/pyiceberg.py" "$root/scripts/query.sh"
}
