"""What librdkafka does to a topic, for interop.sh.

    kafka.py BROKERS topic NAME PARTITIONS [CONFIG=VALUE...]   makes it, when it is missing
    kafka.py BROKERS grow NAME PARTITIONS                      gives it more partitions
    kafka.py BROKERS send NAME COUNT [FIRST]                   idempotently; ids from FIRST on
    kafka.py BROKERS load NAME SECONDS RATE                    idempotently; prints how many it sent
    kafka.py BROKERS transact NAME                             prints how many it committed; ids below 0 it did not
    kafka.py BROKERS compact NAME                              prints how many it sent, are left, are tombstones
    kafka.py BROKERS sizes NAME                                prints how many of them are events within the bound
    kafka.py BROKERS recreate NAME PARTITIONS                  deletes it, and makes it anew
    kafka.py BROKERS hold NAME COUNT FIRST FILE                opens a transaction, prints "held"; commits it once there is the file
    kafka.py BROKERS discard NAME COUNT                        ids below 0, all deleted again (DeleteRecords) with all before them
    kafka.py BROKERS ends NAME [committed]                     prints where each partition ends, or may be read to for now
    kafka.py BROKERS allow CN=WHO topic|group NAME OPERATION... lets a principal do that
    kafka.py BROKERS deny topic|group NAME                     takes back what anybody was allowed with it

Records are {"id":0,"made":"2026-01-01T00:00:00Z","pad":"..."}, ids from 0 on.
"""

import os
import sys
import time

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORD_MAX = 8 << 20  # smelt's bound on a record
OPERATIONS = {"Read": "READ", "Write": "WRITE", "Describe": "DESCRIBE", "DescribeConfigs": "DESCRIBE_CONFIGS"}

# It tries again by itself, and says no more of it than what fails in the end.
CLIENT = {"bootstrap.servers": sys.argv[1], "log_level": 2}
admin = AdminClient(CLIENT)


class Sender:
    """A producer that notes what was acknowledged, and fails when anything is not."""

    def __init__(self, **settings):
        self.acknowledged = 0
        self.producer = Producer({
            **CLIENT, "enable.idempotence": True, "message.max.bytes": 32 << 20,
            "topic.metadata.refresh.interval.ms": 1000, "partitioner": "random", **settings,
        })

    def told(self, err, _):
        if err:
            sys.exit(f"not delivered: {err}")
        self.acknowledged += 1

    def send(self, topic, value, key=None):
        while True:
            try:
                self.producer.produce(topic, value, key, on_delivery=self.told)
                self.producer.poll(0)
                return
            except BufferError:
                self.producer.poll(0.1)

    def flush(self):
        if left := self.producer.flush(120):
            sys.exit(f"{left} records were not delivered within two minutes")


def event(number, pad="x"):
    return f'{{"id":{number},"made":"2026-01-01T{abs(number) % 24:02}:00:00Z","pad":"{pad}"}}'


def topic(name, partitions, *configs):
    made = admin.create_topics(
        [NewTopic(name, int(partitions), 1, config=dict(c.split("=") for c in configs))])
    try:
        made[name].result()
    except KafkaException as e:
        if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def grow(name, partitions):
    admin.create_partitions([NewPartitions(name, int(partitions))])[name].result()


def send(name, count, first="0"):
    """A share of the records in each codec, in batches so small that a log can be cut between them."""
    numbers = range(int(first), int(first) + int(count))
    for i, codec in enumerate(CODECS):
        sender = Sender(**{"compression.type": codec, "batch.num.messages": 20})
        for number in numbers[i :: len(CODECS)]:
            sender.send(name, event(number))
        sender.flush()


def load(name, seconds, rate):
    sender, began, number = Sender(**{"linger.ms": 20}), time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < float(seconds):
        while number < elapsed * float(rate):
            sender.send(name, event(number))
            number += 1
        sender.producer.poll(0.02)
    sender.flush()
    print(sender.acknowledged)


def transact(name):
    """Committed and aborted transactions that overlap in the partitions, and one that nobody ends."""
    transactional = {"transaction.timeout.ms": 10_000, "partitioner": "random"}
    keeper, loser = Sender(**transactional, **{"transactional.id": "keeper"}), Sender(**transactional, **{"transactional.id": "loser"})
    for each in (keeper, loser):
        each.producer.init_transactions()
    number = 0
    for _ in range(20):
        keeper.producer.begin_transaction()
        loser.producer.begin_transaction()
        for _ in range(100):
            keeper.send(name, event(number))
            number += 1
            loser.send(name, event(-number))
        loser.flush()
        loser.producer.abort_transaction()
        keeper.producer.commit_transaction()
    print(number, flush=True)
    loser.producer.begin_transaction()
    loser.send(name, event(-1_000_000))
    loser.flush()
    os._exit(0)  # the transaction stays open: the broker ends it after its time


def compact(name):
    """Many values for few keys, some deleted; then it waits until the broker has compacted and goes no further."""
    sender, sent = Sender(), 60_000
    for number in range(sent):
        value = None if number % 7 == 0 else event(number, "x" * 100)
        sender.send(name, value, key=f"key-{number % 500}")
    sender.flush()
    left, deadline = (sent, 0), time.monotonic() + 60
    while True:
        time.sleep(3)  # for the broker's cleaner; it tells nobody when it is through
        now = read(name)
        if now == left and now[0] < sent:
            break
        if time.monotonic() > deadline:
            sys.exit(f"the broker has not compacted {name} within a minute: {now[0]} of {sent} records are left")
        left = now
    keep = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[keep])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
    print(sent, *read(name))


def read(name):
    """Counts a topic's records, and those of them that are tombstones."""
    consumer = Consumer({**CLIENT, "group.id": "interop-reader", "enable.auto.commit": False,
                         "enable.partition.eof": True})
    partitions = consumer.list_topics(name).topics[name].partitions
    consumer.assign([TopicPartition(name, p, 0) for p in partitions])
    count = tombstones = ends = 0
    while ends < len(partitions):
        for message in consumer.consume(10_000, 1):
            if message.error():
                ends += message.error().code() == KafkaError._PARTITION_EOF
            else:
                count += 1
                tombstones += message.value() is None
    consumer.close()
    return count, tombstones


def sizes(name):
    sender, number = Sender(), 0
    bare = len(event(1, ""))
    for text in ("1", '""', "nul"):  # of one byte up to three: no events
        sender.send(name, text)
    for size in (bare, 1000, 65_536, 1 << 20, (1 << 20) + 1, 4_000_000, RECORD_MAX - 1, RECORD_MAX):
        sender.send(name, event(number, "x" * (size - bare)))
        number += 1
    for size in (RECORD_MAX + 1, 12_000_000):
        sender.send(name, event(number, "x" * (size - bare)))
    sender.flush()
    print(number)


def recreate(name, partitions):
    admin.delete_topics([name])[name].result()
    while name in admin.list_topics().topics:
        time.sleep(0.1)
    admin.create_topics([NewTopic(name, int(partitions), 1)])[name].result()


def hold(name, count, first, file):
    sender = Sender(**{"transactional.id": "holder", "transaction.timeout.ms": 600_000})
    sender.producer.init_transactions()
    sender.producer.begin_transaction()
    for number in range(int(first), int(first) + int(count)):
        sender.send(name, event(number))
    sender.flush()
    print("held", flush=True)
    while not os.path.exists(file):
        sender.producer.poll(0.2)
    sender.producer.commit_transaction()


def partitions(name):
    return sorted(admin.list_topics(name).topics[name].partitions)


def discard(name, count):
    sender = Sender()
    for number in range(int(count)):
        sender.send(name, event(-1 - number))
    sender.flush()
    for done in admin.delete_records([TopicPartition(name, p, OFFSET_END) for p in partitions(name)]).values():
        done.result()


def ends(name, what="uncommitted"):
    consumer = Consumer({**CLIENT, "group.id": "interop-ends", "isolation.level": f"read_{what}"})
    print(*(end(consumer, TopicPartition(name, p)) for p in partitions(name)))
    consumer.close()


def end(consumer, partition):
    """Waits for a broker that has just been started to lead the partition."""
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=60)[1]
        except KafkaException as e:
            if e.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            time.sleep(0.2)


def allow(who, kind, name, *operations):
    acls = [AclBinding(ResourceType[kind.upper()], name, ResourcePatternType.LITERAL, f"User:{who}", "*",
                       AclOperation[OPERATIONS[operation]], AclPermissionType.ALLOW) for operation in operations]
    for done in admin.create_acls(acls).values():
        done.result()


def deny(kind, name):
    everything = AclBindingFilter(ResourceType[kind.upper()], name, ResourcePatternType.LITERAL, None, None,
                                  AclOperation.ANY, AclPermissionType.ANY)
    for done in admin.delete_acls([everything]).values():
        done.result()


commands = (topic, grow, send, load, transact, compact, sizes, recreate, hold, discard, ends, allow, deny)
{f.__name__: f for f in commands}[sys.argv[2]](*sys.argv[3:])
