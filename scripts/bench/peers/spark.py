"""Spark takes a topic into two Iceberg tables: events without duplicates, and their figures by minute.

    spark.py batch|stream BROKERS CHECKPOINT [TOPIC NAME]...    prints the CPU and wall seconds of its JVM for the last, and all its CPU
    spark.py create TABLE...    makes empty tables for events

The first topic is a rehearsal: from then on the JVM has loaded its classes. Spark's settings, with the catalog "lake", are
in the folder SPARK_CONF_DIR.

"batch" reads the topic once, up to its end, and computes the aggregates from the table of events. "stream" is Structured
Streaming, in micro-batches: it keeps the keys of an hour in its state, and merges the figures of each batch into the table.
"""

import sys
import time

import cpu
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

EVENT = "tenantId STRING, deviceId STRING, eventId STRING, recordedAt TIMESTAMP, metric STRING, value DOUBLE, severity STRING"
MINUTE = "minute TIMESTAMP, tenantId STRING, deviceId STRING, metric STRING, events BIGINT, total DOUBLE, lowest DOUBLE, highest DOUBLE"
LAYOUT = "PARTITIONED BY (tenantId, metric, days(recordedAt))"  # that of smelt's silver
NO_SHUFFLE = "TBLPROPERTIES ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"  # a task writes to all partitions
KEY = ["tenantId", "eventId"]
GROUP = ["minute", "tenantId", "deviceId", "metric"]
BATCH = 500_000  # records of a micro-batch
WATERMARK = "1 hour"


def create(spark, table):
    """Makes an empty table for events."""
    spark.sql(f"CREATE TABLE {table} ({EVENT}) USING iceberg {LAYOUT} {NO_SHUFFLE}")


def events(source, brokers, topic):
    source = source.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", topic).option("startingOffsets", "earliest")
    rows = source.option("maxOffsetsPerTrigger", BATCH).load()
    return rows.select(f.from_json(f.col("value").cast("string"), EVENT).alias("e")).select("e.*")


def minutes(rows):
    rows = rows.withColumn("minute", f.date_trunc("minute", "recordedAt"))
    return rows.groupBy(*GROUP).agg(
        f.count("*").alias("events"), f.sum("value").alias("total"), f.min("value").alias("lowest"), f.max("value").alias("highest")
    )


def batch(spark, brokers, topic, silver, gold):
    events(spark.read, brokers, topic).dropDuplicates(KEY).writeTo(silver).append()
    minutes(spark.table(silver)).writeTo(gold).append()


def stream(spark, brokers, topic, silver, gold, checkpoint):
    def write(rows, _):
        rows.persist()
        rows.writeTo(silver).append()
        minutes(rows).createOrReplaceTempView("fresh")
        same = " AND ".join(f"g.{column} = n.{column}" for column in GROUP)
        rows.sparkSession.sql(f"""
            MERGE INTO {gold} g USING fresh n ON {same}
            WHEN MATCHED THEN UPDATE SET events = g.events + n.events, total = g.total + n.total,
                lowest = least(g.lowest, n.lowest), highest = greatest(g.highest, n.highest)
            WHEN NOT MATCHED THEN INSERT *
        """)
        rows.unpersist()

    rows = events(spark.readStream, brokers, topic).withWatermark("recordedAt", WATERMARK).dropDuplicatesWithinWatermark(KEY)
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def jvm(spark):
    return spark._jvm.java.lang.ProcessHandle.current().pid()


def take(how, spark, brokers, topic, name, checkpoint):
    """Takes a topic into tables of its own; returns the CPU and wall seconds."""
    silver, gold = f"lake.peers.{name}_silver", f"lake.peers.{name}_gold"
    create(spark, silver)
    spark.sql(f"CREATE TABLE {gold} ({MINUTE}) USING iceberg {NO_SHUFFLE}")
    pid = jvm(spark)
    used, began = cpu.seconds(pid), time.monotonic()
    if how == "batch":
        batch(spark, brokers, topic, silver, gold)
    else:
        stream(spark, brokers, topic, silver, gold, f"{checkpoint}/{name}")
    return cpu.seconds(pid) - used, time.monotonic() - began


def main(how, *arguments):
    spark = SparkSession.builder.master("local[2]").appName("peers").getOrCreate()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.peers")
    if how == "create":
        for table in arguments:
            create(spark, f"lake.{table}")
    else:
        brokers, checkpoint, *topics = arguments
        for topic, name in zip(*[iter(topics)] * 2):
            used, took = take(how, spark, brokers, topic, name, checkpoint)
        print(f"{used:.2f} {took:.2f} {cpu.seconds(jvm(spark)):.2f}")
    spark.stop()


main(*sys.argv[1:])
