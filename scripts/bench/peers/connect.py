"""Has a worker of Kafka Connect take topics into Iceberg tables, one after the other, and measures the last.

    connect.py URL PID CONF [TOPIC TABLE ROWS]...    prints the CPU and wall seconds of the worker, process PID, and all its CPU

The first is a rehearsal: from then on the worker has loaded its classes. A sink ends when its table has all rows. CONF is
what "smelt connect spark" prints: the catalog's settings are the same for both.
"""

import json
import sys
import time
import urllib.error
import urllib.request

import cpu
import tables

TASKS = 1
INTERVALS = [1_000, 10_000]  # milliseconds between two commits, of the rehearsal and of what is measured
CONSUMER = {"consumer.override.auto.offset.reset": "earliest"}
CATALOG = "spark.sql.catalog.lake."  # before the name of a setting, in CONF

EVERY = 0.5  # seconds between two looks
PATIENCE = 120  # seconds without progress, after which the sink counts as stuck


class Worker:
    """A worker, by its REST interface."""

    def __init__(self, url):
        self.url = url

    def send(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, data=body and json.dumps(body).encode(), method=method, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read() or "null")

    def ask(self, method, path, body=None):
        try:
            return self.send(method, path, body)
        except urllib.error.HTTPError as error:
            sys.exit(f"Kafka Connect: {method} {path}: {error.read().decode()}")

    def states(self, name):
        """The states of the connector's tasks; a failed one ends the program."""
        tasks = self.ask("GET", f"/connectors/{name}/status")["tasks"]
        for task in tasks:
            if task["state"] == "FAILED":
                sys.exit(f"Kafka Connect: {task['trace']}")
        return [task["state"] for task in tasks]

    def listens(self):
        try:
            return self.send("GET", "/connectors") == []
        except urllib.error.URLError:  # nobody listens yet, or knows no connectors
            return False


def catalog_of(conf):
    """The catalog's settings, as the sink wants them."""
    with open(conf) as file:
        lines = [line.split(maxsplit=1) for line in file if line.startswith(CATALOG)]
    return {"iceberg.catalog." + name.removeprefix(CATALOG): value.strip() for name, value in lines}


def until(what, progress):
    """Looks again and again: progress returns True at the end, else anything that changes while there is progress."""
    last, since = None, time.monotonic()
    while (now := progress()) is not True:
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > PATIENCE:
            sys.exit(f"Kafka Connect: {what}: nothing for {PATIENCE} s, at {last}")
        time.sleep(EVERY)


class Sink:
    """The connector from a topic into a table."""

    def __init__(self, worker, name, topic, table, interval, settings):
        self.worker, self.name, self.table = worker, name, table
        self.config = {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": str(TASKS),
            "topics": topic,
            **CONSUMER,
            "iceberg.tables": table,
            "iceberg.catalog": "lake",
            "iceberg.control.topic": f"control-{name}",
            "iceberg.control.commit.interval-ms": str(interval),
            **settings,
        }

    def run(self, lake, rows):
        """Runs it until the table has so many rows."""

        def arrived():
            snapshot = lake.load_table(self.table).current_snapshot()
            have = int(snapshot.summary["total-records"]) if snapshot else 0
            return have >= rows or (have, *self.worker.states(self.name))

        self.worker.ask("POST", "/connectors", {"name": self.name, "config": self.config})
        until(f"{self.table} does not get its {rows} rows", arrived)

    def end(self):
        self.worker.ask("DELETE", f"/connectors/{self.name}")


def main(url, pid, conf, *topics):
    worker, lake, settings = Worker(url), tables.catalog(), catalog_of(conf)
    until("it does not answer", worker.listens)
    for at, (topic, table, rows) in enumerate(zip(*[iter(topics)] * 3)):
        sink = Sink(worker, f"peers-{at}", topic, table, INTERVALS[at], settings)
        used, began = cpu.seconds(pid), time.monotonic()
        sink.run(lake, int(rows))
        used, took = cpu.seconds(pid) - used, time.monotonic() - began
        sink.end()
    print(f"{used:.2f} {took:.2f} {cpu.seconds(pid):.2f}")


main(*sys.argv[1:])
