"""The shell of smelt, Trino, Spark and DuckDB, each as something that answers SQL with a list of rows."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class Shell:
    """query.sh; tables are named schema.table."""

    quote = staticmethod(quoted)

    name = "smelt"

    def __init__(self, query):
        self.query = query

    def ask(self, sql, at=None):
        past = ["--at", str(at)] if at else []
        done = subprocess.run([self.query, "--json", *past, "-c", sql], stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"the shell failed at: {sql}")
        return [list(row.values()) for row in json.loads(done.stdout)]

    @staticmethod
    def micros(time):
        return f"epoch_us({time})"


class Trino:
    """A coordinator, by its protocol: a statement is posted, and its rows are in the pages that follow."""

    quote = staticmethod(quoted)

    name = "Trino"
    tags = True
    patience = 600  # seconds for one statement: compaction rewrites a table

    def __init__(self, url):
        self.url = url

    def ask(self, sql):
        rows, deadline = [], time.monotonic() + self.patience
        page = self.fetch(f"{self.url}/v1/statement", sql.encode())
        while True:
            if "error" in page:
                sys.exit(f"Trino failed at: {sql}\n{page['error']['message']}")
            rows += page.get("data", [])
            if "nextUri" not in page:
                return rows
            if time.monotonic() > deadline:
                sys.exit(f"Trino took over {self.patience} s at: {sql}")
            page = self.fetch(page["nextUri"])

    def fetch(self, url, body=None):
        headers = {
            "X-Trino-User": "interop",
            "X-Trino-Time-Zone": "UTC",
            "X-Trino-Session": "lake.expire_snapshots_min_retention=0s,lake.remove_orphan_files_min_retention=0s",
        }
        request = urllib.request.Request(url, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def columns(self, table):
        schema, name = table.split(".")
        rows = self.ask(
            f"SELECT column_name, data_type FROM lake.information_schema.columns"
            f" WHERE table_schema = '{schema}' AND table_name = '{name}' ORDER BY ordinal_position"
        )
        return [(name, kind.startswith("timestamp")) for name, kind in rows]

    @staticmethod
    def equals(column, text):
        return f"{column} IS NULL" if text is None else f"{column} = from_utf8(X'{text.encode().hex()}')"

    @staticmethod
    def micros(time):
        return f"CAST(round(to_unixtime({time}) * 1000000) AS bigint)"

    @staticmethod
    def at(table, version):
        """A table as it was at a snapshot (a number) or a tag (a string)."""
        return f"lake.{table} FOR VERSION AS OF " + (str(version) if isinstance(version, int) else f"'{version}'")

    @staticmethod
    def snapshots(table):
        schema, name = table.split(".")
        return f'lake.{schema}."{name}$snapshots"'


class Spark:
    """A session in this process."""

    name = "Spark"
    tags = True

    def __init__(self, conf):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        for line in open(conf, encoding="utf-8"):
            if line.strip() and not line.startswith("#"):
                key, value = line.split(None, 1)
                builder = builder.config(key, value.strip())
        self.session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")

    def ask(self, sql):
        return [list(row) for row in self.session.sql(sql).collect()]

    def columns(self, table):
        return [(f.name, f.dataType.typeName().startswith("timestamp")) for f in self.session.table(f"lake.{table}").schema]

    @staticmethod
    def quote(name):
        return "`" + name.replace("`", "``") + "`"

    @staticmethod
    def equals(column, text):
        return f"{column} IS NULL" if text is None else f"{column} = decode(X'{text.encode().hex()}', 'UTF-8')"

    @staticmethod
    def micros(time):
        return f"unix_micros({time})"

    @staticmethod
    def at(table, version):
        return f"lake.{table} VERSION AS OF " + (str(version) if isinstance(version, int) else f"'{version}'")

    @staticmethod
    def snapshots(table):
        return f"lake.{table}.snapshots"


class DuckDB:
    """A database in this process, with the views that smelt connect duckdb makes in it."""

    name = "DuckDB"
    tags = False  # its time travel knows snapshots alone

    def __init__(self, script):
        import duckdb

        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'; ATTACH ':memory:' AS lake; USE lake")
        with open(script, encoding="utf-8") as text:
            self.db.execute(text.read())

    def ask(self, sql):
        return [list(row) for row in self.db.execute(sql).fetchall()]

    quote = staticmethod(quoted)

    @staticmethod
    def equals(column, text):
        return f"{column} IS NULL" if text is None else f"{column} = decode(from_hex('{text.encode().hex()}'))"

    def columns(self, table):
        return [(row[0], row[1].startswith("TIMESTAMP")) for row in self.ask(f"DESCRIBE lake.{table}")]

    @staticmethod
    def micros(time):
        return f"epoch_us({time})"

    def metadata(self, table):
        schema, name = table.split(".")
        [[view]] = self.ask(f"SELECT sql FROM duckdb_views() WHERE schema_name = '{schema}' AND view_name = '{name}'")
        return re.search(r"iceberg_scan\('([^']+)'", view)[1]

    def at(self, table, version):
        return f"iceberg_scan('{self.metadata(table)}', snapshot_from_id => {version})"

    def snapshots(self, table):
        return f"iceberg_snapshots('{self.metadata(table)}')"
