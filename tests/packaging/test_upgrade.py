"""Data folders of earlier versions: opened, continued, and reopened by the old version (docs/public-api.md)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from barnabas.cluster.features import METADATA_VERSION, NEWEST_LEVEL
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from benchmarks.gate import source_of
from tests.packaging.installed import run, serving
from tests.support.clients import RawConnection
from tests.support.programs import PROJECT_ROOT

NEW = PROJECT_ROOT / "src"
PLAIN, COMPACTED, TRANSACTIONAL, GROUP = "plain", "compacted", "transactional", "readers"
TOPICS = (PLAIN, COMPACTED, TRANSACTIONAL)
TIMEOUT = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 20  # of each codec


class FolderState(NamedTuple):
    """State of a node as seen by clients."""

    cluster_id: str | None
    records: dict[str, list[tuple[Any, ...]]]
    committed: int
    retention: str


@contextmanager
def serving_folder(source: Path, data: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "barnabas", "serve", "--data", data, "--listen", "127.0.0.1:0"]
    with serving(command, env={"PYTHONPATH": str(source)}) as (address, _):
        yield address


def create(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    configs = {COMPACTED: {"cleanup.policy": "compact"}, PLAIN: {"retention.ms": "86400000"}}
    topics = [NewTopic(name, 1, 1, config=configs.get(name, {})) for name in TOPICS]
    for future in admin.create_topics(topics).values():
        future.result(TIMEOUT)


def write(address: str, round_: int) -> None:
    """Records of every codec, a committed and an aborted transaction, and a committed offset."""
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": address, "compression.type": codec, "acks": "all"})
        for number in range(RECORDS):
            value = f"{round_} {codec} {number} {'x' * 200}"
            producer.produce(PLAIN, value, f"key-{number}", headers={"round": str(round_)})
            producer.produce(COMPACTED, value, f"key-{number % 3}")
        assert producer.flush(TIMEOUT) == 0
    transactional = Producer({"bootstrap.servers": address, "transactional.id": "upgrade"})
    transactional.init_transactions(TIMEOUT)
    for is_committed in (True, False):
        transactional.begin_transaction()
        transactional.produce(TRANSACTIONAL, f"{round_} {is_committed}")
        transactional.flush(TIMEOUT)
        end = transactional.commit_transaction if is_committed else transactional.abort_transaction
        end(TIMEOUT)
    consumer = _consumer(address)
    consumer.commit(offsets=[TopicPartition(PLAIN, 0, round_ * 10)], asynchronous=False)
    consumer.close()


def state_of(address: str) -> FolderState:
    admin = AdminClient({"bootstrap.servers": address})
    resource = ConfigResource(ResourceType.TOPIC, PLAIN)
    configs = admin.describe_configs([resource])[resource].result(TIMEOUT)
    consumer = _consumer(address)
    (committed,) = consumer.committed([TopicPartition(PLAIN, 0)], TIMEOUT)
    records = {topic: list(_records(consumer, topic)) for topic in TOPICS}
    consumer.close()
    cluster_id = admin.list_topics(timeout=TIMEOUT).cluster_id
    return FolderState(cluster_id, records, committed.offset, configs["retention.ms"].value)


def _records(consumer: Consumer, topic: str) -> Iterator[tuple[Any, ...]]:
    """Offset, key, value, headers and time of all committed records."""
    partition = TopicPartition(topic, 0, 0)
    consumer.assign([partition])
    _, end = consumer.get_watermark_offsets(partition, TIMEOUT)
    while True:
        message = consumer.poll(TIMEOUT)
        assert message is not None
        if (error := message.error()) is not None:  # the end, which may be after a marker
            assert error.name() == "_PARTITION_EOF", error
            assert consumer.position([partition])[0].offset == end
            return
        yield message.offset(), message.key(), message.value(), message.headers(), message.timestamp()


def _consumer(address: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )


@pytest.mark.parametrize("commit", ["9b546e8", pytest.param("1b1e095", marks=pytest.mark.extended)])
def test_a_folder_is_opened_by_this_version_and_again_by_the_old_one(commit: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with source_of(commit) as old:
        with serving_folder(old, data) as address:
            create(address)
            write(address, 1)
            written = state_of(address)
        for round_, source in enumerate((NEW, old, NEW), 2):
            with serving_folder(source, data) as address:
                assert state_of(address) == written
                write(address, round_)
                written = state_of(address)
        assert len(written.records[PLAIN]) == 4 * RECORDS * len(CODECS)
        assert len(written.records[TRANSACTIONAL]) == 4
        assert written.committed == 40


def test_the_old_version_refuses_a_folder_whose_level_was_raised(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with source_of("9b546e8") as old:
        with serving_folder(old, data) as address:
            create(address)
        with serving_folder(NEW, data) as address:
            raise_level(address)
        with pytest.raises(AssertionError, match="upgrade"), serving_folder(old, data):
            pass
        with serving_folder(NEW, data) as address:
            assert PLAIN in run(sys.executable, "-m", "barnabas", "topics", "list", "-b", address)


def raise_level(address: str) -> None:
    wanted = FeatureUpdateKey(METADATA_VERSION, NEWEST_LEVEL)
    with RawConnection(int(address.rpartition(":")[2]), timeout=30) as connection:
        answer: Any = connection.ask(UpdateFeaturesRequest(feature_updates=[wanted]), 1)
    assert answer.error_code == ErrorCode.NONE, answer
