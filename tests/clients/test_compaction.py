"""Compaction of a running broker, observed by clients."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic  # the stubs of confluent_kafka.admin do not export it

from barnabas.broker import log_cleaner
from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import DEADLINE
from tests.support.brokers import BrokerProcess
from tests.support.waiting import until

SETTINGS = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "1000"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "20000",
    "file.delete.delay.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS, data_dir=tmp_path) as running:
        yield running


class Reachable(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


def send(
    broker: Reachable, topic: str, pairs: list[tuple[str, str | None]], compression: str = "none"
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "batch.size": 2000,
            "linger.ms": 1,
            "compression.type": compression,
        }
    )
    for key, value in pairs:
        producer.produce(topic, key=key, value=value, partition=0)
    assert producer.flush(DEADLINE) == 0


def read(broker: Reachable, topic: str, isolation: str = "read_committed") -> list[Message]:
    """Everything in partition 0, from the start to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    try:
        while (message := consumer.poll(DEADLINE)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append(message)
    finally:
        consumer.close()
    raise AssertionError("the end was not reached in time")


def table(messages: list[Message]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for message in messages:
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        if value is None:
            found.pop(key, None)
        else:
            assert isinstance(value, bytes)
            found[key] = value
    return found


def segments(broker: EmbeddedBroker, topic: str) -> list[Path]:
    return sorted((broker.data_dir / f"{topic}-0").glob("*.log"))


def wait_until_compact(broker: EmbeddedBroker, topic: str) -> None:
    """Wait until everything below the active segment was compacted."""
    logs = broker.broker.logs
    [log] = [log for log in logs if log.topic_partition == (topic, 0)]
    until(lambda: logs.cleaned_upto(log) == log.active.base_offset, f"the compaction of {topic}")


def size(broker: EmbeddedBroker, topic: str) -> int:
    return sum(path.stat().st_size for path in segments(broker, topic))


def value_of(key: int, number: int) -> str:
    """Hard to compress, so that segments fill up."""
    return hashlib.sha256(b"%d %d" % (key, number)).hexdigest()


def churn(broker: Reachable, topic: str, rounds: int = 20, keys: int = 50, compression: str = "none") -> None:
    pairs: list[tuple[str, str | None]] = [
        (f"key-{key}", value_of(key, number)) for number in range(rounds) for key in range(keys)
    ]
    send(broker, topic, pairs, compression)


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_a_topic_shrinks_to_its_last_values(broker: EmbeddedBroker, compression: str) -> None:
    topic = broker.create_topic(configs=COMPACTED)
    churn(broker, topic, compression=compression)
    before = size(broker, topic)
    wait_until_compact(broker, topic)
    assert size(broker, topic) < before / 2
    assert len(segments(broker, topic)) <= 3
    found = read(broker, topic)
    assert table(found) == {b"key-%d" % key: value_of(key, 19).encode() for key in range(50)}
    offsets = [message.offset() or 0 for message in found]
    assert offsets == sorted(set(offsets))
    [end] = [log.log_end_offset for log in broker.broker.logs if log.topic_partition.topic == topic]
    assert end == 1000


def test_compaction_runs_while_records_are_written_and_read(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs=COMPACTED)
    for number in range(5):
        churn(broker, topic, rounds=8)
        assert len(table(read(broker, topic))) == 50 + number
        send(broker, topic, [(f"round-{number}", str(number))])
    wait_until_compact(broker, topic)
    assert size(broker, topic) < 40_000
    values = table(read(broker, topic))
    assert [values[b"round-%d" % number] for number in range(5)] == [b"%d" % number for number in range(5)]


def test_deleted_keys_vanish_after_their_retention(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(
        configs={**COMPACTED, "internal.segment.bytes": "3000", "delete.retention.ms": "100"}
    )
    churn(broker, topic, rounds=4)
    send(broker, topic, [(f"key-{key}", None) for key in range(50)])

    def tombstones_are_gone() -> bool:
        churn(broker, topic, rounds=30, keys=2)  # there must be something to do
        wait_until_compact(broker, topic)
        return all(message.value() is not None for message in read(broker, topic))

    until(tombstones_are_gone, "the removal of the tombstones")
    assert table(read(broker, topic)).keys() == {b"key-0", b"key-1"}


def test_transactions_keep_their_outcome(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs=COMPACTED)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "compaction"})
    producer.init_transactions(DEADLINE)
    for number in range(30):
        producer.begin_transaction()
        for key in range(20):
            producer.produce(topic, key=f"key-{key}", value=f"{number}-{'x' * 40}", partition=0)
        producer.flush(DEADLINE)
        if number % 3:
            producer.abort_transaction(DEADLINE)
        else:
            producer.commit_transaction(DEADLINE)
    wait_until_compact(broker, topic)
    expected = {b"key-%d" % key: b"27-" + b"x" * 40 for key in range(20)}
    assert table(read(broker, topic)) == expected


def test_a_compacted_topic_survives_a_restart(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs=COMPACTED)
    churn(broker, topic)
    wait_until_compact(broker, topic)
    found = table(read(broker, topic))
    broker.restart()
    assert table(read(broker, topic)) == found
    assert f"{topic} 0 " in (broker.data_dir / "cleaner-offset-checkpoint").read_text()


def test_the_offsets_of_groups_are_compacted_and_stay(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.segment.delete.delay.ms": "0",
        "offsets.topic.segment.bytes": "1048576",
    }
    with EmbeddedBroker(settings, data_dir=tmp_path) as broker:
        topic = broker.create_topic()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "committing"})
        for offset in range(1, 401):
            commit = TopicPartition(topic, 0, offset, metadata="x" * 3500)  # to fill a segment soon
            consumer.commit(offsets=[commit], asynchronous=False)
        consumer.close()
        wait_until_compact(broker, "__consumer_offsets")
        # Of about 300 commits in the first segment, one is left.
        assert segments(broker, "__consumer_offsets")[0].stat().st_size < 10_000
        broker.restart()
        again = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "committing"})
        assert again.committed([TopicPartition(topic, 0)], DEADLINE)[0].offset == 400
        again.close()


def test_a_killed_worker_is_replaced_and_leaves_the_log_as_it_was(broker: EmbeddedBroker) -> None:
    # So slow that it can be caught in the act.
    cleaning = broker.broker.log_cleaner
    broker.broker.config = broker.broker.config.with_dynamic(
        {"log.cleaner.io.max.bytes.per.second": "1000"}, {}
    )
    topic = broker.create_topic(configs={**COMPACTED, "internal.segment.bytes": "3000000"})
    churn(broker, topic, rounds=1000)
    until(worker_pids, "a worker")
    before = [(path.name, path.read_bytes()) for path in segments(broker, topic)]
    os.kill(worker_pids()[0], signal.SIGKILL)
    until(lambda: cleaning.uncleanable, "the failure to be noticed")
    assert [(path.name, path.read_bytes()) for path in segments(broker, topic)] == before
    [failure] = cleaning.uncleanable.values()
    assert "exited unexpectedly (exit code -9)" in failure.reason
    snapshot = broker.broker.metrics.snapshot()
    label = f"{{logdirectory={broker.data_dir}}}"
    assert snapshot[f"kafka_log_logcleanermanager_uncleanable_partitions_count{label}"] == 1

    broker.broker.config = broker.broker.dynamic_config.static
    cleaning.uncleanable.clear()
    until(lambda: size(broker, topic) < 1_500_000, "the next attempt")
    folder = broker.data_dir / f"{topic}-0"
    until(lambda: not list(folder.glob(f"*{names.CLEANED}")), "the removal of what was left")
    assert len(table(read(broker, topic))) == 50


def test_a_broker_that_stops_at_the_end_of_a_compaction_leaves_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_step, may_go_on = threading.Event(), threading.Event()

    def remove(fs: FileSystem, folder: str) -> None:
        last_step.set()
        assert may_go_on.wait(DEADLINE)

    monkeypatch.setattr(log_cleaner, "remove_unfinished", remove)
    with EmbeddedBroker(SETTINGS, data_dir=tmp_path) as broker:
        churn(broker, broker.create_topic(configs=COMPACTED))
        assert last_step.wait(DEADLINE)
        assert worker_pids()
        threading.Timer(0.2, may_go_on.set).start()
    assert not worker_pids()


def worker_pids() -> list[int]:
    """Child processes that are workers of a broker."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if (
                parent == os.getpid()
                and b"barnabas.log.compaction.worker" in (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def test_a_topic_may_be_deleted_while_it_is_compacted(broker: EmbeddedBroker) -> None:
    broker.broker.config = broker.broker.config.with_dynamic(
        {"log.cleaner.io.max.bytes.per.second": "1000"}, {}
    )
    topic = broker.create_topic(configs={**COMPACTED, "internal.segment.bytes": "3000000"})
    churn(broker, topic, rounds=1000)
    until(worker_pids, "a worker")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(DEADLINE)
    broker.broker.config = broker.broker.dynamic_config.static
    other = broker.create_topic(configs=COMPACTED)
    churn(broker, other)
    assert not broker.broker.log_cleaner.uncleanable
    assert not broker.broker.logs.offline_dirs
    assert len(table(read(broker, other))) == 50


def test_workers_end_with_the_broker(tmp_path: Path) -> None:
    with EmbeddedBroker(SETTINGS, data_dir=tmp_path) as broker:
        topic = broker.create_topic(configs=COMPACTED)
        churn(broker, topic)
        until(worker_pids, "a worker")
    assert not worker_pids()


@pytest.mark.parametrize("suffix", [names.CLEANED, names.DELETED])
def test_kill_9_in_the_middle_of_a_compaction_loses_nothing(tmp_path: Path, suffix: str) -> None:
    # Slow enough to be caught while a new segment is half written.
    slowly = "log.cleaner.io.max.bytes.per.second=2000000"
    with BrokerProcess(tmp_path, "log.cleaner.backoff.ms=100", slowly) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        config = {**COMPACTED, "internal.segment.bytes": "1300000", "file.delete.delay.ms": "60000"}
        admin.create_topics([NewTopic("killed", 1, 1, config=config)])["killed"].result(DEADLINE)
        for rounds in (400, 401, 402):
            churn(broker, "killed", rounds=rounds)
            send(broker, "killed", [(f"after-{rounds}", "x")])
            until(lambda: list((tmp_path / "killed-0").glob(f"*{suffix}")), f"a file {suffix}")
            broker.kill()
            broker.start()
            found = table(read(broker, "killed"))
            assert {found[b"key-%d" % key] for key in range(50)} == {
                value_of(key, rounds - 1).encode() for key in range(50)
            }
        assert {b"after-400", b"after-401", b"after-402"} <= found.keys()
