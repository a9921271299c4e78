"""Copies a topic to files of NDJSON, one a partition, and counts: confluent-kafka's consumer, from the beginning to the end.

    topic.py BROKERS TOPIC FOLDER    prints its events, the bytes of their values, the unique events, and the minutes

An event is unique by its tenantId and eventId. A minute is one of a tenant, device and metric that has events.
"""

import contextlib
import json
import os
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

BATCH = 10_000  # records, at most, of one call
PATIENCE = 30  # seconds without a record, after which the broker counts as gone


def main(brokers, topic, folder):
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "peers-copy", "enable.auto.commit": False, "log_level": 2})
    partitions = sorted(consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=PATIENCE)[1] for p in partitions}
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    events, size, unique, minutes = 0, 0, set(), set()
    os.makedirs(folder, exist_ok=True)
    with contextlib.ExitStack() as stack:
        files = {p: stack.enter_context(open(f"{folder}/{p}.ndjson", "wb")) for p in partitions}
        while events < sum(ends.values()):
            records = consumer.consume(BATCH, timeout=PATIENCE)
            if not records:
                sys.exit(f"topic {topic}: {events} of {sum(ends.values())} records, and no more for {PATIENCE} s")
            for record in records:
                if record.error():
                    sys.exit(f"topic {topic}: {record.error()}")
                value = record.value()
                files[record.partition()].write(value + b"\n")
                event = json.loads(value)
                unique.add((event["tenantId"], event["eventId"]))
                minutes.add((event["recordedAt"][:16], event["tenantId"], event["deviceId"], event["metric"]))
                events += 1
                size += len(value)
    consumer.close()
    print(events, size, len(unique), len(minutes))


main(*sys.argv[1:])
