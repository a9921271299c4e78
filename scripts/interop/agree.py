"""Compares what an engine and smelt's shell say of a lake to which nothing writes meanwhile.

    agree.py QUERY (trino URL | spark CONF | duckdb SQL) STEP...

QUERY is the path of query.sh, CONF and SQL that of a file as smelt connect prints it. A step is
    tables    columns, counts, sums, bounds, groups and every row of silver, gold and quarantine
    past      the same figures at snapshots and tags of silver and gold, by time travel
    hostile   every row of the pipeline that is parted by tenants whose names are hard to tell, and each tenant's by itself
    run SQL   nothing is compared: the engine runs a statement, and its rows are shown
Prints each comparison; exit code 1 when one does not hold.
"""

import json
import math
import subprocess
import sys
from pathlib import Path

from engines import DuckDB, Shell, Spark, Trino
from hostile import TENANTS

# By table: a number to add up, its time, what its rows are grouped by, and ordered by.
TABLES = {
    "silver.sensors": ("temperature_celsius", "event_time", "city", "_partition_id, _partition_offset"),
    "quarantine.sensors": ("_partition_offset", "_timestamp", "reason", "_partition_id, _partition_offset"),
    "gold.sensors_hourly": ("readings", "hour", "city", "hour, city"),
}
# Only the shell's view has it: it follows from the watermark.
VIEW_ONLY = "_final"
# How many snapshots of a table are compared: the oldest, the newest, and some between.
SNAPSHOTS = 5

differences = []


def alike(one, other):
    """Sums of floats depend on their order."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return None not in (one, other) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other


def compare(what, engine, shell, shown=None):
    text = str(engine if shown is None else shown)
    if alike(engine, shell):
        print(f"  {what}: {text if len(text) <= 80 else text[:80] + '…'}")
    else:
        print(f"  {what}: the engine says {engine}, smelt {shell}", file=sys.stderr)
        differences.append(what)


def figures(side, number, time):
    return f"count(*), CAST(sum({number}) AS DOUBLE), {side.micros(f'min({time})')}, {side.micros(f'max({time})')}"


def compare_tables(engine, shell):
    for name, (number, time, group, order) in TABLES.items():
        print(name)
        columns = engine.columns(name)
        said = [row[0] for row in shell.ask(f"DESCRIBE {name}") if row[0] != VIEW_ONLY]
        compare("columns", [column for column, _ in columns], said, len(said))
        ours = engine.ask(f"SELECT {figures(engine, number, time)} FROM lake.{name}")[0]
        compare("count, sum, first, last", ours, shell.ask(f"SELECT {figures(shell, number, time)} FROM {name}")[0])
        if not ours[0]:
            differences.append(f"{name} is empty, so nothing was compared")
        groups = f"SELECT {group}, count(*), CAST(sum({number}) AS DOUBLE) FROM %s GROUP BY {group} ORDER BY {group} NULLS LAST"
        compare(f"count and sum by {group}", engine.ask(groups % f"lake.{name}"), shell.ask(groups % name))
        compare_rows(name, engine, shell, columns, order)


def compare_rows(name, engine, shell, columns, order):
    """Every row, every column: numbers to the bit, times to the microsecond."""

    def rows(side, table):
        listed = ", ".join(f"{side.micros(c)} AS {c}" if is_time else c for c, is_time in columns)
        keys = ", ".join(f"{key.strip()} NULLS LAST" for key in order.split(","))
        return side.ask(f"SELECT {listed} FROM (SELECT * FROM {table}) AS t ORDER BY {qualified(keys)}")

    def qualified(keys):
        return ", ".join(f"t.{key.strip()}" for key in keys.split(","))

    ours, said = plain(rows(engine, f"lake.{name}")), plain(rows(shell, name))
    first = next((i for i, pair in enumerate(zip(ours, said)) if pair[0] != pair[1]), None)
    if first is None:
        compare("rows alike in every column", len(ours), len(said))
    else:
        compare(f"row {first}", json.dumps(ours[first]), json.dumps(said[first]))


def plain(value):
    """Structs as lists of their fields' values: engines tell them as tuples, dictionaries, lists."""
    if isinstance(value, dict):
        return [plain(v) for v in value.values()]
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def history(table):
    """The snapshots that a table still has, the oldest first, as smelt history tells them."""
    smelt = Path(sys.argv[1]).parent.parent / "bin" / "smelt"
    told = subprocess.run([smelt, "history", table, "--limit", "0", "--json"], stdout=subprocess.PIPE, check=True).stdout
    entries = [json.loads(line) for line in told.splitlines()]
    return [e for e in reversed(entries) if e["operation"] != "rollback"]


def compare_past(engine, shell):
    for name in ("silver.sensors", "gold.sensors_hourly"):
        number, time, _, _ = TABLES[name]
        kept = history(name)
        print(f"{name}: {len(kept)} snapshots")
        seen = engine.ask(f"SELECT count(*) FROM {engine.snapshots(name)}")
        compare("snapshots", seen[0][0], len({e["snapshot"] for e in kept}))
        for version in versions(kept, engine.tags):
            ours = engine.ask(f"SELECT {figures(engine, number, time)} FROM {engine.at(name, version)}")[0]
            said = shell.ask(f"SELECT {figures(shell, number, time)} FROM {name}", at=version)[0]
            compare(f"at {version}", ours, said)


def versions(kept, tags):
    """Some snapshots evenly between the oldest and the newest, those before and after a rollback, and some tags."""
    spread = {i * (len(kept) - 1) // (SNAPSHOTS - 1) for i in range(SNAPSHOTS)}
    turned = [i for i, e in enumerate(kept) if e["rolled_back"]]
    spread |= set(turned[-2:])
    names = [n["name"] for e in kept for n in e["names"] if n["kind"] == "tag" and tags]
    return [kept[i]["snapshot"] for i in sorted(spread)] + names[-3:]


def compare_hostile(engine, shell):
    """Every row by the tables of the pipeline hostile, in whatever order; and the rows of each tenant alone, by a
    condition, for which an engine reads the partition's files only."""
    for name in ("silver.hostile", "quarantine.hostile", "gold.hostile_select"):
        print(name)
        columns = engine.columns(name)

        def rows(side, table):
            listed = ", ".join(side.micros(side.quote(c)) if is_time else side.quote(c) for c, is_time in columns)
            return sorted(plain(side.ask(f"SELECT {listed} FROM {table}")), key=repr)

        ours, said = rows(engine, f"lake.{name}"), rows(shell, name)
        odd = [pair for pair in zip(ours, said) if pair[0] != pair[1]]
        compare("rows", len(ours), len(said))
        compare("the first row that differs", json.dumps(odd[:1]), "[]", "none")
    alone = {tenant: engine.ask(f"SELECT count(*) FROM lake.silver.hostile WHERE {engine.equals('tenant', tenant)}")[0][0] for tenant in TENANTS}
    compare("rows of each tenant by itself", [alone[tenant] for tenant in TENANTS], [3] * len(TENANTS), f"3 of each of {len(alone)}")


def main():
    query, kind, where, *steps = sys.argv[1:]
    shell, engine = Shell(query), {"trino": Trino, "spark": Spark, "duckdb": DuckDB}[kind](where)
    while steps:
        step = steps.pop(0)
        if step == "tables":
            compare_tables(engine, shell)
        elif step == "past":
            compare_past(engine, shell)
        elif step == "hostile":
            compare_hostile(engine, shell)
        elif step == "run":
            for row in engine.ask(steps.pop(0)):
                print(*row, sep="\t")
        else:
            sys.exit(f"no such step: {step}\n{__doc__}")
    if differences:
        sys.exit(f"{engine.name} and smelt differ: " + "; ".join(differences))


main()
