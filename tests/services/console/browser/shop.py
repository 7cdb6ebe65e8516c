"""The cluster of a small shop, with two hours behind it and groups that read: for pictures of the documentation."""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.schemas import Schema, SchemaClient
from barnabas.testing import EmbeddedBroker

TOPICS = ("orders", "payments", "clicks", "shipments", "app.logs")
PARTITIONS = 4
MINUTES = 120
TIMEOUT = 30.0
TICK_SECONDS = 0.5
STANDS_STILL = 60.0
"""Seconds after which warehouse reads nothing more."""
# What each group reads, and the most records that it manages in a tick.
GROUPS = {"billing": ("orders", 500), "warehouse": ("orders", 500), "fraud": ("payments", 6)}
LINES = (
    "INFO order {n} placed by customer-{c}",
    "INFO payment {n} took {d} ms",
    "WARN payment {n} took {d} ms, the bank is slow",
    "ERROR payment {n} failed: the bank did not answer",
)


@contextmanager
def shop() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_topics([NewTopic(name, PARTITIONS) for name in TOPICS]).values():
            future.result(TIMEOUT)
        _register(broker.registry_url)
        _sell(servers)
        trade = _Trade(servers)
        trade.start()
        try:
            yield broker
        finally:
            trade.close()


def _register(url: str) -> None:
    """Two versions of one subject, and others."""
    fields = [("id", "long"), ("customer", "int"), ("city", "string"), ("amount", "double")]
    order = [{"name": name, "type": kind} for name, kind in fields]
    coupon = {"name": "coupon", "type": ["null", "string"], "default": None}
    page = 'syntax = "proto3";\nmessage Click {\n  string page = 1;\n}\n'
    with SchemaClient(url) as client:
        for found in (order, [*order[:3], {**order[3], "doc": "gross"}, coupon]):
            text = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": found})
            client.register("orders-value", Schema("AVRO", text))
        client.register(
            "payments-value",
            Schema("AVRO", json.dumps({"type": "record", "name": "Payment", "fields": order[:2]})),
        )
        client.register("clicks-value", Schema("PROTOBUF", page))
        client.register("orders-key", Schema("AVRO", '"string"'))


def _sell(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    source = random.Random(3)
    now = int(time.time() * 1000)
    for minute in range(MINUTES):
        busy = 40 + 25 * math.sin(minute / 15) + source.random() * 8
        for _ in range(int(busy)):
            at = now - (MINUTES - minute) * 60_000 + source.randrange(60_000)
            _event(producer, source, min(at, now))
    assert producer.flush(TIMEOUT) == 0


def _event(producer: Producer, source: random.Random, at: int) -> None:
    number, customer = source.randrange(100_000), source.randrange(500)
    order = {"id": number, "customer": customer, "city": source.choice(["Oslo", "Rome", "Lima", "Kyoto"])}
    order["amount"] = round(source.lognormvariate(3.5, 0.6), 2)
    key = f"customer-{customer}"
    producer.produce("orders", json.dumps(order), key, timestamp=at)
    producer.produce("payments", json.dumps({"order": number, "amount": order["amount"]}), key, timestamp=at)
    for page in range(source.randrange(4)):
        producer.produce("clicks", json.dumps({"page": f"/shoes/{page}"}), key, timestamp=at)
    line = source.choices(LINES, (60, 30, 8, 2))[0].format(n=number, c=customer, d=source.randrange(20, 900))
    moment = time.strftime("%FT%T", time.gmtime(at / 1000))
    producer.produce("app.logs", f"{moment}.{at % 1000:03d}Z {line}", "shop-1", timestamp=at)
    producer.poll(0)


class _Trade(threading.Thread):
    """Sells on, and has the groups read: billing keeps up, fraud is too slow, warehouse stops after a minute."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="trade", daemon=True)
        self._servers = servers
        self._closing = threading.Event()

    def run(self) -> None:
        producer, source = Producer({"bootstrap.servers": self._servers, "linger.ms": 5}), random.Random(4)
        readers = {name: _reader(self._servers, name, topic) for name, (topic, _) in GROUPS.items()}
        began = time.monotonic()
        while not self._closing.wait(TICK_SECONDS):
            passed = time.monotonic() - began
            for _ in range(8 + int(5 * math.sin(passed / 20))):
                _event(producer, source, int(time.time() * 1000))
            for name, reader in readers.items():
                _read(reader, 0 if name == "warehouse" and passed > STANDS_STILL else GROUPS[name][1])
        producer.flush(TIMEOUT)
        for reader in readers.values():
            reader.close()

    def close(self) -> None:
        self._closing.set()
        self.join(TIMEOUT)


def _reader(servers: str, group: str, topic: str) -> Consumer:
    settings = {"group.id": group, "client.id": f"{group}-1", "auto.offset.reset": "latest"}
    consumer = Consumer({"bootstrap.servers": servers, "enable.auto.commit": False, **settings})
    ends = [
        TopicPartition(topic, at, consumer.get_watermark_offsets(TopicPartition(topic, at), TIMEOUT)[1])
        for at in range(PARTITIONS)
    ]
    consumer.commit(offsets=ends, asynchronous=False)
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.05)
    return consumer


def _read(consumer: Consumer, most: int) -> None:
    """A reader of nothing stays a member: its partitions are paused."""
    if not most:
        consumer.pause(consumer.assignment())
    read = consumer.consume(max(1, most), 0.05)
    if read:
        consumer.commit(asynchronous=False)
