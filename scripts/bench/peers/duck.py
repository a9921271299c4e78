"""Bare DuckDB: events from files, typed and without duplicates, in any order, to one Parquet file. It is the limit: it keeps
no position and commits nothing.

    duck.py FOLDER OUT    reads FOLDER/*.ndjson; prints the CPU and wall seconds, and the rows of OUT
"""

import sys
import time

import cpu
import duckdb

TYPED = """{tenantId: 'VARCHAR', deviceId: 'VARCHAR', eventId: 'VARCHAR', recordedAt: 'TIMESTAMPTZ', metric: 'VARCHAR', value: 'DOUBLE', severity: 'VARCHAR'}"""


def main(folder, out):
    db = duckdb.connect(config={"threads": 2, "memory_limit": "4GB"})
    db.execute("SET TimeZone = 'UTC'")
    used, began = cpu.seconds(), time.monotonic()
    db.execute(f"""
        COPY (
            SELECT *
            FROM read_json('{folder}/*.ndjson', format = 'newline_delimited', columns = {TYPED})
            QUALIFY row_number() OVER (PARTITION BY tenantId, eventId) = 1
        ) TO '{out}' (FORMAT parquet, COMPRESSION zstd)
    """)
    used, took = cpu.seconds() - used, time.monotonic() - began
    print(f"{used:.2f} {took:.2f}", *db.sql(f"SELECT count(*), count(DISTINCT (tenantId, eventId)) FROM '{out}'").fetchone())


main(*sys.argv[1:])
