"""The cluster of a small shop with two hours of history, for the screenshots of the documentation."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.status import STATUS_TOPIC, TOPIC_SETTINGS, ProcessStatus, StatusPart
from barnabas.services.console.history.store import HistoryStore
from barnabas.testing import EmbeddedBroker

TOPICS = ("orders", "payments", "clicks", "shipments", "app.logs")
PARTITIONS = 4
MINUTES = 120
TIMEOUT = 30.0
# Lag of each group as a share of the topic.
GROUPS = {"billing": ("orders", 0.01), "warehouse": ("orders", 0.2), "fraud": ("payments", 0.05)}
LINES = (
    "INFO order {n} placed by customer-{c}",
    "INFO payment {n} took {d} ms",
    "WARN payment {n} took {d} ms, the bank is slow",
    "ERROR payment {n} failed: the bank did not answer",
)


@contextmanager
def shop() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        status = NewTopic(STATUS_TOPIC, 1, config=TOPIC_SETTINGS)
        for future in admin.create_topics([*(NewTopic(t, PARTITIONS) for t in TOPICS), status]).values():
            future.result(TIMEOUT)
        _sell(servers)
        with _groups(servers):
            yield broker


def _sell(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    source = random.Random(3)
    now = int(time.time() * 1000)
    for minute in range(MINUTES):
        busy = 40 + 25 * math.sin(minute / 15) + source.random() * 8
        for _ in range(int(busy)):
            at = now - (MINUTES - minute) * 60_000 + source.randrange(60_000)
            _event(producer, source, min(at, now))
    for each in _statuses(now):
        producer.produce(STATUS_TOPIC, msgspec.json.encode(each), each.key)
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
    timestamp = time.strftime("%FT%T", time.gmtime(at / 1000))
    producer.produce("app.logs", f"{timestamp}.{at % 1000:03d}Z {line}", "shop-1", timestamp=at)
    producer.poll(0)


def remember(path: Path) -> None:
    """Two hours of samples, as a console that had been running would have them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store, now = HistoryStore(path), int(time.time() * 1000)
    for ago in range(MINUTES * 6, 0, -1):
        wave = 1 + math.sin(ago / 90)
        lags = {"billing": 25 * wave, "warehouse": 700 + 400 * wave, "fraud": 140 * wave}
        values = {f"group/{name}/lag": lag for name, lag in lags.items()}
        values |= {f"group/{name}/lag_seconds": lag * 1.1 for name, lag in lags.items()}
        total = {"cluster/lag": sum(lags.values()), "cluster/lag_seconds": lags["warehouse"] * 1.1}
        total |= {"cluster/out": 3 + 2 * wave, "cluster/bytes": 1_600_000 - ago * 1500}
        store.record(now - ago * 10_000, values | total)
    store.close()


def _statuses(now: int) -> list[ProcessStatus]:
    lines = [StatusPart("app", kind="files", topics=["app.logs"], lag=0, counts={"records": 5000})]
    flows = [
        StatusPart(name, lag=lag, counts={"rows": 5210}) for name, lag in (("traffic", 3), ("sessions", 12))
    ]
    return [
        ProcessStatus(
            "agent", "shop-1", "running", "shop-1", 712, now - 7_200_000, now, every=3600.0, parts=lines
        ),
        ProcessStatus(
            "pipeline", "activity", "running", "etl-1", 933, now - 7_200_000, now, every=3600.0, parts=flows
        ),
    ]


@contextmanager
def _groups(servers: str) -> Iterator[None]:
    members = []
    for group, (topic, behind) in GROUPS.items():
        consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "client.id": f"{group}-1"})
        consumer.commit(offsets=list(_partitions(consumer, topic, behind)), asynchronous=False)
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.05)
        members.append(consumer)
    try:
        yield
    finally:
        for member in members:
            member.close()


def _partitions(consumer: Consumer, topic: str, behind: float) -> Iterator[TopicPartition]:
    for partition in range(PARTITIONS):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT)
        yield TopicPartition(topic, partition, int(end * (1 - behind)))
