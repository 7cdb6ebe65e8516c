"""A broker that writes to an object store and is lost with its disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)

from barnabas.broker.restore.plan import read_image
from barnabas.cluster.image import MetadataImage
from barnabas.testing import EmbeddedBroker
from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest_file import read_manifest
from barnabas.tiering.restoring.state import read_group_state
from barnabas.tiering.stores.opening import open_store
from barnabas.tiering.stores.store import ObjectStore, StoreError
from tests.support.waiting import retry, until

TIMEOUT = 60
RECORDS = 2500
PARTITIONS = 2
GROUP = "readers"
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}

COPIED = {
    "cleanup.policy": "compact",
    "remote.storage.enable": "true",
    "barnabas.remote.compacted": "copy",
    "internal.segment.bytes": "100000",
}
ACCOUNTS, KEYS = 1000, 20


@dataclass
class Store:
    """Its URL and options."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "remote.log.storage.system.enable": "true",
            "barnabas.remote.storage.url": self.url,
            "remote.log.manager.task.interval.ms": "50",
            "log.retention.check.interval.ms": "100",
            "barnabas.remote.state.interval.ms": "100",
            **{f"rsm.config.{name}": value for name, value in self.options.items()},
        }

    @property
    def arguments(self) -> list[str]:
        """For a command."""
        return [part for name, value in self.options.items() for part in ("--option", f"{name}={value}")]

    def run(self, work: Callable[[ObjectStore], Any]) -> Any:
        async def with_it() -> Any:
            store = open_store(self.url, dict(self.options))
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(with_it())

    def image(self, cluster_id: str) -> MetadataImage | None:
        """As it is written down; None if it is not yet."""
        try:
            found: MetadataImage = self.run(lambda store: read_image(store, cluster_id))[1]
            return found
        except StoreError:
            return None


@dataclass
class Lost:
    """State of the cluster at its loss."""

    image: MetadataImage
    tiered_ends: dict[tuple[str, int], int]
    committed: dict[int, int]
    """By partition of `clicks`."""
    kept: list[int]
    """Numbers of the records of `payments` that were not aborted, as far as they were copied."""


def produce(
    broker: EmbeddedBroker, topic: str, numbers: range, partition: int = 0, keys: int | None = None
) -> None:
    """A number in each record; the remainder of it by `keys` is its key."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "batch.size": 50_000})
    for number in numbers:
        key = None if keys is None else f"{number % keys}"
        producer.produce(topic, f"{number} ".encode() + bytes(1000), key, partition=partition)
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0


def read(broker: EmbeddedBroker, topic: str, partition: int = 0, **settings: str) -> list[tuple[int, int]]:
    """(offset, number) of every record up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "a-test",
            "auto.offset.reset": "error",
            "enable.partition.eof": "true",
            "enable.auto.commit": "false",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    taken: list[tuple[int, int]] = []
    while True:
        record = consumer.poll(TIMEOUT)
        assert record is not None, f"nothing came after {len(taken)} records of {topic}"
        error, offset = record.error(), record.offset()
        if error is not None:
            assert error.name() == "_PARTITION_EOF", error
            break
        assert offset is not None
        taken.append((offset, int((record.value() or b"").split()[0])))
    consumer.close()
    return taken


def lose_cluster(store: Store, folder: Path) -> Lost:
    """Create a cluster of one node with all restorable state, and lose it."""
    with EmbeddedBroker(store.settings, data_dir=folder) as broker:
        broker.create_topic("clicks", partitions=PARTITIONS, configs=TIERED)
        broker.create_topic("payments", configs=TIERED)
        broker.create_topic("state", configs={"cleanup.policy": "compact"})
        broker.create_topic("accounts", configs=COPIED)
        for index in range(PARTITIONS):
            produce(broker, "clicks", range(RECORDS), index)
        kept = _pay(broker)
        produce(broker, "state", range(10))
        produce(broker, "accounts", range(ACCOUNTS), keys=KEYS)
        until(lambda: _copied(store, broker) > 100, "the compacted topic is copied")
        _administer(broker)
        committed = _commit(broker)
        places = [*(("clicks", index) for index in range(PARTITIONS)), ("payments", 0)]
        ends = {place: _tiered_end(broker, *place) for place in places}
        image = broker.broker.image
        until(lambda: _is_written(store, broker), "metadata and offsets are written down")
        broker.kill()
    shutil.rmtree(folder)
    return Lost(image, ends, committed, [number for offset, number in kept if offset < ends["payments", 0]])


def _pay(broker: EmbeddedBroker) -> list[tuple[int, int]]:
    """Transactions, every third of them aborted, and a last one that begins below the tiered end and ends above it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payer"})
    producer.init_transactions(TIMEOUT)
    for number in range(9):
        producer.begin_transaction()
        _send(producer, range(1000 * number, 1000 * number + 300))
        if number % 3 == 2:
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)
    producer.begin_transaction()
    _send(producer, range(20_000, 22_500))
    producer.commit_transaction(TIMEOUT)
    return read(broker, "payments", isolation_level="read_committed")


def _send(producer: Producer, numbers: range) -> None:
    for number in numbers:
        producer.produce("payments", f"{number} ".encode() + bytes(1000))
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0


def _administer(broker: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("alice", info, b"her password")]
    ).values():
        future.result(TIMEOUT)


def _commit(broker: EmbeddedBroker) -> dict[int, int]:
    """One group is in the middle, and one at the end, which is not copied."""
    wanted = {0: 700, 1: RECORDS}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP})
    consumer.commit(
        offsets=[TopicPartition("clicks", index, offset) for index, offset in wanted.items()],
        asynchronous=False,
    )
    consumer.close()
    return wanted


def _copied(store: Store, broker: EmbeddedBroker) -> int:
    """The end of the copy of `accounts`."""
    image = broker.broker.image
    folder = PartitionFolder(image.cluster_id, "accounts", image.topics["accounts"].topic_id, 0)
    seen = store.run(lambda opened: read_manifest(opened, folder))
    return seen.manifest.tiered_end if seen is not None else 0


def _tiered_end(broker: EmbeddedBroker, topic: str, index: int) -> int:
    """Once all sealed segments have left the disk."""
    folder = broker.data_dir / f"{topic}-{index}"
    until(lambda: len(list(folder.glob("*.log"))) == 1, "segments leave the disk")
    return broker.broker.replicas.by_name[topic][index].log.offsets.tiered_end


def _is_written(store: Store, broker: EmbeddedBroker) -> bool:
    now = broker.broker.image
    written = store.image(now.cluster_id)
    if written is None or written.offset < now.offset:
        return False
    state = store.run(lambda opened: read_group_state(opened, now.cluster_id, now.incarnation, 0))
    return state is not None and sum(each.group == GROUP for each in state.offsets) == PARTITIONS


def check_restored(lost: Lost, broker: EmbeddedBroker) -> None:
    """All copied records exist, and the cluster continues."""
    image = broker.broker.image
    assert image.cluster_id == lost.image.cluster_id
    assert image.incarnation > lost.image.incarnation
    assert image.scram_credentials == lost.image.scram_credentials
    assert image.next_producer_id >= lost.image.next_producer_id + 1_000_000
    for name, topic in lost.image.topics.items():
        assert image.topics[name].topic_id == topic.topic_id
        assert len(image.topics[name].partitions) == len(topic.partitions)
        assert lost.image.topic_configs(name).items() <= image.topic_configs(name).items()
        for before, after in zip(topic.partitions, image.topics[name].partitions, strict=True):
            assert after.leader_epoch > before.leader_epoch
    for index in range(PARTITIONS):
        end = lost.tiered_ends["clicks", index]
        assert end > 1000
        assert read(broker, "clicks", index) == [(offset, offset) for offset in range(end)]
        produce(broker, "clicks", range(end, end + 500), index)
        assert read(broker, "clicks", index) == [(offset, offset) for offset in range(end + 500)]
    assert [number for _, number in read(broker, "payments", isolation_level="read_committed")] == lost.kept
    check_accounts(broker)


def check_accounts(broker: EmbeddedBroker) -> None:
    """Of each key the last value that was copied, with its offset."""
    found = read(broker, "accounts")
    end = found[-1][0] + 1
    assert end > 100
    newest = {number % KEYS: (offset, number) for offset, number in found}
    assert newest == {number % KEYS: (number, number) for number in range(end)}


def committed_offsets(broker: EmbeddedBroker) -> dict[int, int]:
    """Read with kafka-python, which does not wait for a coordinator."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    errors = (NotCoordinatorError, CoordinatorLoadInProgressError, CoordinatorNotAvailableError)
    try:
        found = retry(lambda: admin.list_group_offsets([GROUP])[GROUP], errors)
        return {place.partition: value.offset for place, value in found.items()}
    finally:
        admin.close()
