"""Reference rows from a poll loop with confluent-kafka and `json`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.tables.conftest import DEADLINE, NOW, Cluster, fill, poll_all

TYPES: dict[str, type | tuple[type, ...]] = {"id": int, "country": str, "amount": (int, float), "tags": list}
RECORD = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
COLUMNS = [*TYPES, "_corrupt_record", *(f"_{name}" for name in RECORD)]
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",  # timestamps of records are a second apart
    "min.cleanable.dirty.ratio": "0.0001",
    "delete.retention.ms": "3600000",
}
PARTITIONS = 2
RECORDS = 600

Row = dict[str, Any]


def create_topic(cluster: Cluster, name: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)])[name].result(DEADLINE)


def compacted_topic(cluster: Cluster, name: str) -> str:
    """Codecs, aborted transactions, tombstones and bad values in a topic that is compacted while it is written."""
    create_topic(cluster, name, COMPACTED)
    fill(cluster, name, PARTITIONS, RECORDS, keyed=True)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for partition in range(PARTITIONS):  # earlier records are not in an active segment any more
        producer.produce(name, b"{}", b"last", partition, timestamp=NOW + 3_000_000)
    assert producer.flush(DEADLINE) == 0
    return name


def polled(cluster: Cluster, topic: str) -> list[Row]:
    return [row_of(message) for message in poll_all(cluster, topic, PARTITIONS)]


def while_nothing_changes(
    cluster: Cluster, topic: str, read: Callable[[], Any], limit: int
) -> tuple[list[Row], Any]:
    """(rows of a poll loop, result), once compaction has left `most` records and is idle."""
    end = time.monotonic() + DEADLINE
    before = polled(cluster, topic)
    while time.monotonic() < end:
        found = read()
        after = polled(cluster, topic)
        if before == after and len(after) <= limit:
            return after, found
        before = after
    raise AssertionError(f"{topic} still has {len(before)} records, or other ones, after {DEADLINE:g} s")


def row_of(message: Message) -> Row:
    value = message.value()
    assert value is None or isinstance(value, bytes)
    fields, fits = fields_of(value)
    kind, milliseconds = message.timestamp()
    return {
        **fields,
        "_corrupt_record": None if fits or value is None else value.decode("utf-8", "replace"),
        "_key": message.key(),
        "_value": value,
        "_topic": message.topic(),
        "_partition": message.partition(),
        "_offset": message.offset(),
        "_timestamp": datetime.fromtimestamp(milliseconds / 1000, UTC),
        "_timestampType": kind - 1,  # librdkafka counts from 1
        "_headers": [{"key": key, "value": data} for key, data in list(message.headers() or [])] or None,
    }


def fields_of(value: bytes | None) -> tuple[Row, bool]:
    """(the fields, whether the value fits): of one that fits in part, that part."""
    nothing = dict.fromkeys(TYPES)
    if value is None:
        return nothing, True
    try:
        found = json.loads(value)
    except ValueError:
        return nothing, False
    if not isinstance(found, dict):
        return nothing, False
    good = {name: found[name] for name, kind in TYPES.items() if isinstance(found.get(name), kind)}
    return nothing | good, not any(name in found and name not in good for name in TYPES)


def newest(rows: list[Row]) -> dict[bytes, Row]:
    """Of each key, without those whose newest is a tombstone; the topic has each key in one partition."""
    found = {row["_key"]: row for row in rows if row["_key"] is not None}
    return {key: row for key, row in found.items() if row["_value"] is not None}
