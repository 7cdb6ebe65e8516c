"""When the wall clock jumps ahead, nothing expires until the new time is confirmed."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.common.clock import HAS_BOOT_CLOCK
from barnabas.metrics.text import render
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.support.waiting import until

DEADLINE = 60.0
MONTH_NS = 30 * 24 * 3600 * 10**9
SETTINGS = {
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "0",
    "offsets.retention.check.interval.ms": "50",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
    "producer.id.expiration.check.interval.ms": "50",
}


def write(broker: EmbeddedBroker, topic: str) -> None:
    """Records, offsets of a group that is empty then, and a transactional id."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payments"})
    producer.init_transactions(DEADLINE)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.commit_transaction(DEADLINE)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()


def committed(broker: EmbeddedBroker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    (place,) = consumer.committed([TopicPartition(topic, 0)], DEADLINE)
    consumer.close()
    return int(place.offset)


def ids(broker: EmbeddedBroker) -> int:
    return sum(len(shard) for shard in broker.broker.coordinators.transactions.shards)


def jump_of(broker: EmbeddedBroker) -> float:
    found = re.search(r"^barnabas_clock_jump_seconds (.*)$", render(broker.broker.metrics), re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.mark.skipif(not HAS_BOOT_CLOCK, reason="the time since boot is not known here")
def test_records_offsets_and_transactional_ids_outlive_a_jump_until_it_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedBroker(SETTINGS, data_dir=tmp_path / "data") as broker:
        topic, other = broker.create_topic(), broker.create_topic(configs={"retention.ms": "1"})
        write(broker, topic)
        log = broker.broker.replicas.by_name[topic][0].log
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + MONTH_NS)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(2):  # others expire meanwhile: those that are old by any clock
            producer.produce(other, b"old", timestamp=1000)
            assert producer.flush(DEADLINE) == 0
            end = broker.broker.replicas.by_name[other][0].log
            until(lambda end=end: end.log_start_offset == end.log_end_offset, "it expires")  # type: ignore[misc]
        assert (log.log_start_offset, committed(broker, topic), ids(broker)) == (0, 1, 1)
        assert jump_of(broker) == pytest.approx(MONTH_NS / 1e9, abs=1)
        cli = Cli(broker.bootstrap_servers)
        cli.ok("configs", "set", "broker", "default", "barnabas.clock.jump.pause.ms=0")
        until(lambda: log.log_start_offset == log.log_end_offset, "records expire")
        until(lambda: committed(broker, topic) < 0, "offsets expire")
        until(lambda: not ids(broker), "transactional ids expire")
        assert jump_of(broker) == 0
