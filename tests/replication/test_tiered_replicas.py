"""Replicas of tiered topics: a new one starts at the tiered end; a new leader continues copying."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from barnabas.broker.broker import Broker
from barnabas.broker.tiering.tiering import Tiering
from barnabas.cli.main import make_app
from barnabas.cluster.features import METADATA_VERSION, SECURITY_LEVEL, SUPPORTED_FEATURES, Levels
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.log.log import Log
from barnabas.tiering.objects.layout import parse_segment_name
from tests.replication.test_brokers import read_all
from tests.replication.test_moving import move
from tests.support.clusters import Brokers
from tests.support.waiting import until

TIMEOUT = 60
CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "0",
    "min.insync.replicas": "1",
}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    (tmp_path / "bucket").mkdir()
    settings = {
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{tmp_path}/bucket",
        "remote.log.manager.task.interval.ms": "50",
        "log.retention.check.interval.ms": "100",
    }
    with Brokers(tmp_path, 3, settings) as running:
        yield running


def create(brokers: Brokers, topic: str, replicas: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
    configs = CONFIG | {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, replicas, config=configs)])[topic].result(TIMEOUT)
    brokers.until_in_sync(topic, replicas)


def produce(brokers: Brokers, topic: str, first: int, last: int, keys: int = 0) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all", "linger.ms": 5})
    for number in range(first, last):
        key = f"{number % keys}" if keys else None
        producer.produce(topic, f"{number} ".encode() + bytes(1000), key)
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0


def numbers(brokers: Brokers, topic: str) -> list[int]:
    return [int(value.split()[0]) for value in read_all(brokers, topic)]


def log_of(brokers: Brokers, number: int, topic: str) -> Log:
    partition = brokers.brokers[number].replicas.find(topic, 0)
    assert partition is not None
    return partition.log


def until_tiered(brokers: Brokers, number: int, topic: str) -> None:
    log = log_of(brokers, number, topic)
    until(lambda: len(log.segments) == 1 and log.offsets.local_start > 0, "segments stay on the disk")


class OlderBroker(Broker):
    supported_features: ClassVar[Levels] = {**SUPPORTED_FEATURES, METADATA_VERSION: (1, SECURITY_LEVEL)}


def test_a_topic_is_tiered_only_when_no_older_broker_is_left(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    settings = {
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{tmp_path}/bucket",
    }
    brokers = Brokers(tmp_path, 0, settings)
    with brokers:
        brokers.start(1, kind=OlderBroker)
        brokers.start(2, kind=OlderBroker)
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
        for number in (1, 2):
            brokers.stop(number)
            brokers.start(number)
            with pytest.raises(
                KafkaException, match=r"needs barnabas.metadata.version=4: upgrade all brokers"
            ):
                admin.create_topics([NewTopic("clicks", 1, 1, config=CONFIG)])["clicks"].result(TIMEOUT)
            raised = CliRunner(env={"BARNABAS_BOOTSTRAP": brokers.bootstrap_servers}).invoke(
                make_app(), ["cluster", "upgrade"]
            )
            assert (raised.exit_code == 0) == (number == 2)
        create(brokers, "clicks", replicas=2)


def test_moving_replica_copies_only_uncopied_segments(brokers: Brokers, tmp_path: Path) -> None:
    create(brokers, "clicks", replicas=1)
    (first,) = brokers.state("clicks").replicas
    produce(brokers, "clicks", 0, 5000)
    until_tiered(brokers, first, "clicks")
    tiered_end = log_of(brokers, first, "clicks").offsets.tiered_end
    second = next(number for number in brokers.brokers if number != first)
    assert move(brokers, "clicks", [second]) == ErrorCode.NONE
    until(lambda: brokers.state("clicks").leader == second, "the replica does not move")
    log = log_of(brokers, second, "clicks")
    assert log.offsets.start == 0
    assert log.segments.base_offset == tiered_end
    assert numbers(brokers, "clicks") == list(range(5000))
    produce(brokers, "clicks", 5000, 8000)
    until_tiered(brokers, second, "clicks")
    assert log.offsets.tiered_end > tiered_end
    assert numbers(brokers, "clicks") == list(range(8000))
    names = [parse_segment_name(path.name) for path in (tmp_path / "bucket").rglob("*.segment")]
    assert len({name.base for name in names if name}) == len(names)  # nothing was copied twice
    assert len({name.leader_epoch for name in names if name}) == 2


def test_next_leader_has_all_records_and_continues(brokers: Brokers) -> None:
    create(brokers, "clicks", replicas=2)
    first, second = brokers.state("clicks").replicas
    produce(brokers, "clicks", 0, 4000)
    until_tiered(brokers, first, "clicks")
    brokers.kill(first)
    until(lambda: brokers.state("clicks").leader == second, "nobody takes over")
    assert numbers(brokers, "clicks") == list(range(4000))
    produce(brokers, "clicks", 4000, 7000)
    until_tiered(brokers, second, "clicks")
    assert numbers(brokers, "clicks") == list(range(7000))
    brokers.start(first)
    brokers.until_in_sync("clicks", 2)
    assert log_of(brokers, first, "clicks").log_end_offset == 7000
    assert numbers(brokers, "clicks") == list(range(7000))


@pytest.mark.parametrize("kept", [-1, 2 << 20])
@pytest.mark.parametrize("from_tiered_end", [True, False])
def test_new_replica_starts_at_the_tiered_end_or_at_its_leaders_local_start_by_setting(
    brokers: Brokers, from_tiered_end: bool, kept: int
) -> None:
    create(brokers, "clicks", replicas=1, local_retention_bytes=str(kept))
    (first,) = brokers.state("clicks").replicas
    produce(brokers, "clicks", 0, 6000)
    leader = log_of(brokers, first, "clicks")
    until(lambda: leader.offsets.tiered_end == leader.active.base_offset, "nothing is copied")
    until(lambda: kept < 0 or leader.size_bytes < 2 * kept, "everything stays")
    tiered_end, local_start = leader.offsets.tiered_end, leader.offsets.local_start
    assert (local_start == 0) == (kept < 0)
    second = next(number for number in brokers.brokers if number != first)
    brokers.stop(second)
    settings = {"follower.fetch.last.tiered.offset.enable": str(from_tiered_end).lower()}
    brokers.start(second, settings)
    assert move(brokers, "clicks", [first, second]) == ErrorCode.NONE
    brokers.until_in_sync("clicks", 2)
    begins = log_of(brokers, second, "clicks").segments.base_offset
    assert begins == (tiered_end if from_tiered_end else local_start)
    assert move(brokers, "clicks", [second]) == ErrorCode.NONE
    until(lambda: brokers.state("clicks").leader == second, "the replica does not move")
    assert numbers(brokers, "clicks") == list(range(6000))


def test_the_next_leader_of_a_compacted_topic_replaces_the_copy_by_its_own(
    brokers: Brokers, tmp_path: Path
) -> None:
    config = {
        "cleanup.policy": "compact",
        "remote.storage.enable": "true",
        "barnabas.remote.compacted": "copy",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": str(1 << 20),
        "min.insync.replicas": "1",
    }
    create(brokers, "accounts", replicas=2, **config)
    first, second = brokers.state("accounts").replicas
    produce(brokers, "accounts", 0, 2500, keys=40)
    assert brokers.run(rolled(log_of(brokers, first, "accounts"))) == 2500
    until(lambda: copied_end(brokers, first, "accounts") == 2500, "nothing is copied")
    brokers.kill(first)
    until(lambda: brokers.state("accounts").leader == second, "nobody takes over")
    produce(brokers, "accounts", 2500, 4000, keys=40)
    assert brokers.run(rolled(log_of(brokers, second, "accounts"))) == 4000
    until(lambda: copied_end(brokers, second, "accounts") == 4000, "the next leader does not go on")
    log = log_of(brokers, second, "accounts")
    assert not log.is_tiered
    assert log.local_start_offset == 0
    assert set(range(3960, 4000)) <= set(numbers(brokers, "accounts"))


async def rolled(log: Log) -> int:
    log.roll(time.time_ns() // 1_000_000)
    return log.log_end_offset


def copied_end(brokers: Brokers, number: int, topic: str) -> int:
    tiering = brokers.brokers[number].tiering
    assert isinstance(tiering, Tiering)
    led = tiering.led.get(TopicPartition(topic, 0))
    manifest = led.writer.manifest if led is not None else None
    return manifest.tiered_end if manifest is not None else -1
