"""Reads a lake with pyiceberg, and compares what it sees with what smelt's shell says.

    reads.py QUERY    QUERY is the path of query.sh

pyiceberg finds the catalog as a user's would: in .pyiceberg.yaml in $PYICEBERG_HOME. Nothing may write to the lake
meanwhile. Prints each comparison; exit code 1 when one does not hold.
"""

import json
import math
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, IsNull, LessThan
from pyiceberg.types import DecimalType, ListType, StructType

from hostile import TENANTS

# By table: a number to add up, its times, and what its rows are ordered by.
TABLES = {
    "silver.sensors": ("temperature_celsius", "event_time", ["_partition_id", "_partition_offset"]),
    "quarantine.sensors": ("_partition_offset", "_timestamp", ["_partition_id", "_partition_offset"]),
    "gold.sensors_hourly": ("readings", "hour", ["hour", "city"]),
}
# What the shell calls pyiceberg's types.
TYPES = {
    "string": "VARCHAR", "int": "INTEGER", "long": "BIGINT", "double": "DOUBLE",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
}
# Only the shell's view has it: it follows from the watermark.
VIEW_ONLY = "_final"
# What smelt writes into its snapshots' summaries.
LEDGER = "smelt.ledger"

differences = []


def compare(what, pyiceberg, shell):
    """Prints what both say, or notes that they differ. Sums of floats depend on their order."""
    if isinstance(pyiceberg, float) and isinstance(shell, float):
        same = math.isclose(pyiceberg, shell, rel_tol=1e-9)
    else:
        same = pyiceberg == shell
    check(f"{what}: {brief(pyiceberg)}", same, f"the shell says {shell}, pyiceberg {pyiceberg}")


def check(what, holds, otherwise):
    if holds:
        print(f"  {what}")
    else:
        print(f"  {what}: {otherwise}", file=sys.stderr)
        differences.append(what)


def brief(value):
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def ask(sql):
    """Runs a statement in the shell: a list of dictionaries."""
    done = subprocess.run([sys.argv[1], "--json", "-c", sql], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"the shell failed at: {sql}")
    return json.loads(done.stdout)


def comparable(arrow):
    """The rows as lists, times as microseconds since 1970, decimals as JSON has them."""
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in arrow.columns]
    rows = zip(*(c.to_pylist() for c in columns))
    return [[float(v) if isinstance(v, Decimal) else v for v in row] for row in rows]


def shell_type(t):
    """What the shell calls one of pyiceberg's types."""
    if isinstance(t, DecimalType):
        return f"DECIMAL({t.precision},{t.scale})"
    if isinstance(t, ListType):
        return shell_type(t.element_type) + "[]"
    if isinstance(t, StructType):
        return "STRUCT(" + ", ".join(f"{f.name} {shell_type(f.field_type)}" for f in t.fields) + ")"
    return TYPES.get(str(t), str(t))


def compare_schema(name, table):
    shown = {row["column_name"]: row["column_type"] for row in ask(f"DESCRIBE {name}")}
    shown.pop(VIEW_ONLY, None)
    compare("columns", {f.name: shell_type(f.field_type) for f in table.schema().fields}, shown)


def compare_rows(name, table):
    number, time, order = TABLES[name]
    arrow = table.scan().to_arrow()
    times = arrow[time].cast(pa.int64())
    said = ask(
        f"SELECT count(*) AS n, sum({number})::DOUBLE AS total, epoch_us(min({time})) AS lo, epoch_us(max({time})) AS hi"
        f" FROM {name}"
    )[0]
    compare("rows", arrow.num_rows, said["n"])
    compare(f"sum of {number}", float(pc.sum(arrow[number]).as_py() or 0), float(said["total"] or 0))
    compare(f"first and last {time}", [pc.min(times).as_py(), pc.max(times).as_py()], [said["lo"], said["hi"]])
    check("not empty", arrow.num_rows > 0, "so nothing was compared")

    # Every row, every column, exactly.
    columns = ", ".join(
        f"epoch_us({c.name}) AS {c.name}" if pa.types.is_timestamp(c.type) else c.name for c in arrow.schema
    )
    shell = ask(f"SELECT {columns} FROM (SELECT * FROM {name} ORDER BY {', '.join(order)})")
    shell = [[row[c] for c in arrow.schema.names] for row in shell]
    ours = comparable(arrow.sort_by([(c, "ascending") for c in order]))
    first = next((i for i, (a, b) in enumerate(zip(ours, shell)) if a != b), None)
    if first is None:
        compare("rows alike in every column", len(ours), len(shell))
    else:
        compare(f"row {first}", ours[first], shell[first])


def compare_snapshots(table):
    """Time travel: a snapshot has the rows that DuckDB says, and that smelt's ledger in its summary counts."""
    kept = sorted(table.snapshots(), key=lambda s: s.sequence_number)
    said = ask(f"SELECT snapshot_id AS id FROM iceberg_snapshots('{table.metadata_location}') ORDER BY sequence_number")
    compare("snapshots", [s.snapshot_id for s in kept], [row["id"] for row in said])
    for s in pick(kept):
        rows = table.scan(snapshot_id=s.snapshot_id).to_arrow().num_rows
        said = ask(
            f"SELECT count(*) AS n FROM iceberg_scan('{table.metadata_location}', snapshot_from_id => {s.snapshot_id})"
        )
        compare(f"rows at snapshot {s.sequence_number} of {len(kept)}", rows, said[0]["n"])
        ledger = json.loads(s.summary[LEDGER])
        counted = ledger["records"] - ledger["tombstones"] - sum((ledger["quarantined"] or {}).values())
        check(f"its ledger too: {counted}", rows == counted, f"pyiceberg reads {rows} rows")


def pick(snapshots):
    """The oldest, one in the middle and the newest."""
    return [snapshots[i] for i in sorted({0, len(snapshots) // 2, len(snapshots) - 1})]


def compare_filter(name, table, time, since, until, why):
    """A filter on the time gives the shell's rows, and leaves files unread."""
    scan = table.scan(row_filter=And(GreaterThanOrEqual(time, since), LessThan(time, until)))
    said = ask(f"SELECT count(*) AS n FROM {name} WHERE {time} >= '{since}' AND {time} < '{until}'")
    read, all_files = len(list(scan.plan_files())), len(list(table.scan().plan_files()))
    rows = scan.to_arrow().num_rows
    compare(f"rows of {why}", rows, said[0]["n"])
    check(f"files of {why}: {read} of {all_files}", 0 < read < all_files, "the filter leaves none unread")
    check(f"{why} has rows", rows > 0, "so nothing was compared")


def compare_hostile(catalog):
    """Every row of the pipeline that is parted by tenants whose names are hard to tell, and each tenant's by itself."""
    for name in ("silver.hostile", "quarantine.hostile", "gold.hostile_select"):
        print(name)
        table = catalog.load_table(name)
        arrow = table.scan().to_arrow()
        quoted = ['"' + c.name.replace('"', '""') + '"' for c in arrow.schema]
        columns = ", ".join(f"epoch_us({q}) AS {q}" if pa.types.is_timestamp(c.type) else q for q, c in zip(quoted, arrow.schema))
        shell = sorted((list(row.values()) for row in ask(f"SELECT {columns} FROM {name}")), key=repr)
        ours = sorted(comparable(arrow), key=repr)
        compare("rows", len(ours), len(shell))
        compare("the first rows that differ", [pair for pair in zip(ours, shell) if pair[0] != pair[1]][:1], [])
    silver = catalog.load_table("silver.hostile")
    alone = [
        silver.scan(row_filter=IsNull("tenant") if tenant is None else EqualTo("tenant", tenant)).to_arrow().num_rows
        for tenant in TENANTS
    ]
    compare("rows of each tenant by itself", alone, [3] * len(TENANTS))


def main():
    catalog = load_catalog("lake")
    for name, (_, time, _) in TABLES.items():
        print(name)
        table = catalog.load_table(name)
        compare_schema(name, table)
        compare_rows(name, table)
        if name != "silver.sensors":
            continue
        compare_snapshots(table)
        compare_filter(name, table, time, "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", "one day")
        newest = ask(f"SELECT strftime(max({time}) - INTERVAL 2 SECOND, '%Y-%m-%dT%H:%M:%S+00:00') AS t FROM {name}")[0]["t"]
        compare_filter(name, table, time, newest, "9999-01-01T00:00:00+00:00", "the last seconds")
    compare_hostile(catalog)
    if differences:
        sys.exit("pyiceberg and the shell differ: " + "; ".join(differences))


main()
