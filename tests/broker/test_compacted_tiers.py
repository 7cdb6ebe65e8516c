"""Compacted topics with a copy in the object store: real clients, a broker, and a folder as store."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from barnabas.config.tiering_checks import NOT_COMPACTED, NOT_COMPACTED_LATER
from barnabas.log import names
from barnabas.records.batch import iterate_headers
from barnabas.records.record import iterate_records
from barnabas.testing import EmbeddedBroker
from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import Manifest, decode, entry_key
from barnabas.tiering.objects.segment_object import read_chunk, read_footer
from barnabas.tiering.stores.opening import FolderStore
from barnabas.tiering.stores.store import MissingObjectError
from tests.broker.test_tiering import TIMEOUT
from tests.clients.test_compaction import read
from tests.support.cli import Cli
from tests.support.tiering.lost_cluster import Store
from tests.support.waiting import until

ATTEMPTS = 100
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "barnabas.remote.delete.delay.ms": "0",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "remote.storage.enable": "true",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "20000",
    "file.delete.delay.ms": "0",
    "delete.retention.ms": "0",
}
COPIED = {**COMPACTED, "barnabas.remote.compacted": "copy"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    (tmp_path / "bucket").mkdir()
    url = {"barnabas.remote.storage.url": f"file://{tmp_path}/bucket"}
    with EmbeddedBroker({**SETTINGS, **url}, data_dir=tmp_path / "data") as running:
        yield running


def send(broker: EmbeddedBroker, topic: str, pairs: list[tuple[str, str | None]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 2000})
    for key, value in pairs:
        producer.produce(topic, key=key, value=value, partition=0)
    assert producer.flush(TIMEOUT) == 0


class Copy:
    """Objects of partition 0 in the store."""

    def __init__(self, broker: EmbeddedBroker, bucket: Path, topic: str) -> None:
        self.bucket = bucket
        partition = broker.broker.replicas.by_name[topic][0]
        self.folder = PartitionFolder(broker.broker.cluster_id, topic, partition.topic_id, 0)

    def manifest(self) -> Manifest | None:
        path = self.bucket / self.folder.manifest
        return decode(path.read_bytes(), self.folder) if path.exists() else None

    def state(self) -> dict[bytes, bytes]:
        """The last value of each key. A compaction may replace it meanwhile, and these brokers delete replaced
        objects immediately."""
        for _ in range(ATTEMPTS):
            found = self.manifest()
            assert found is not None
            with suppress(MissingObjectError):
                return asyncio.run(self._state(found))
        raise AssertionError("it is replaced again and again")

    async def _state(self, manifest: Manifest) -> dict[bytes, bytes]:
        store = FolderStore(str(self.bucket))
        state: dict[bytes, bytes | None] = {}
        for entry in manifest.entries:
            key = entry_key(self.folder, entry)
            footer = await read_footer(store, key, entry)
            for number in range(len(footer.chunks)):
                chunk = await read_chunk(store, key, footer, number)
                for position, header in iterate_headers(chunk):
                    if header.is_control:
                        continue
                    for record in iterate_records(chunk[position : position + header.size], header):
                        assert record.key is not None
                        state[record.key] = record.value
        await store.close()
        return {key: value for key, value in state.items() if value is not None}

    @property
    def tiered_end(self) -> int:
        manifest = self.manifest()
        return manifest.tiered_end if manifest is not None else 0

    def objects(self) -> set[str]:
        return {path.name for path in (self.bucket / self.folder.prefix).glob("*.segment")}


def roll(broker: EmbeddedBroker, topic: str) -> int:
    """Seal all there is; the log end."""
    inner = broker.broker
    log = inner.replicas.by_name[topic][0].log

    async def rolled() -> int:
        log.roll(inner.clock.now_ms())
        return log.log_end_offset

    return broker._in_thread().run(rolled(), TIMEOUT)


def test_the_store_follows_each_compaction_and_the_log_stays_here(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic(configs=COPIED)
    copy = Copy(broker, tmp_path / "bucket", topic)
    send(broker, topic, [(f"{number % 50}", f"{number} " + "x" * 200) for number in range(1000)])
    send(broker, topic, [("7", None)])
    end = roll(broker, topic)
    wanted = {b"%d" % key: b"%d " % (950 + key) + b"x" * 200 for key in range(50) if key != 7}
    until(lambda: copy.tiered_end == end and copy.state() == wanted, "the copy is complete")
    log = broker.broker.replicas.by_name[topic][0].log

    def is_compact() -> bool:
        manifest = copy.manifest()
        assert manifest is not None
        names = {entry.key for entry in manifest.entries}
        return manifest.size < 60_000 and not manifest.garbage and copy.objects() == names

    until(is_compact, "compaction replaces what is listed, and what was replaced is deleted")
    assert copy.state() == wanted
    assert (log.log_start_offset, log.local_start_offset, log.is_tiered) == (0, 0, False)
    before = copy.objects()
    broker.restart()
    send(broker, topic, [("new", "value")])
    end = roll(broker, topic)
    until(lambda: copy.tiered_end == end, "the next life goes on")
    assert copy.state() == {**wanted, b"new": b"value"}
    assert copy.objects() & before, "what has not changed is not copied again"


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_lost_log_is_rebuilt_from_its_copy_before_it_is_led(
    broker: EmbeddedBroker, tmp_path: Path, interrupted: bool
) -> None:
    topic = broker.create_topic(configs=COPIED)
    copy = Copy(broker, tmp_path / "bucket", topic)
    send(broker, topic, [(f"{number % 50}", f"{number} " + "x" * 200) for number in range(500)])
    abort(broker, topic)
    end = roll(broker, topic)
    until(lambda: copy.tiered_end == end, "the copy is complete")
    state = copy.state()
    broker.stop()
    folder = broker.data_dir / f"{topic}-0"
    if interrupted:  # an interrupted rebuild: records, and the marker file
        (folder / names.REBUILDING).touch()
    else:
        shutil.rmtree(folder)
    broker.start()
    until(lambda: broker.broker.replicas.find(topic, 0) is not None, "the store was asked what it has")
    log = broker.broker.replicas.by_name[topic][0].log
    until(
        lambda: log.log_end_offset >= end and not (folder / names.REBUILDING).exists(),
        "it has its records again",
    )
    assert last_values(broker, topic) == {key: value for key, value in state.items() if key != b"aborted"}
    send(broker, topic, [("new", "value")])
    end = roll(broker, topic)
    until(lambda: copy.tiered_end == end, "copying goes on")
    assert copy.state()[b"new"] == b"value"


def abort(broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, key="aborted", value="never", partition=0)
    producer.flush(TIMEOUT)
    producer.abort_transaction(TIMEOUT)


def last_values(broker: EmbeddedBroker, topic: str) -> dict[bytes | None, bytes | None]:
    values: dict[bytes | None, bytes | None] = {}
    for record in read(broker, topic):
        values[record.key()] = record.value()
    return values


def test_a_restored_cluster_has_its_compacted_topics(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    store = Store(f"file://{tmp_path}/bucket")
    with EmbeddedBroker(store.settings, data_dir=tmp_path / "lost") as broker:
        topic = broker.create_topic(configs=COPIED)
        copy = Copy(broker, tmp_path / "bucket", topic)
        send(broker, topic, [(f"{number % 50}", f"{number} " + "x" * 200) for number in range(500)])
        end = roll(broker, topic)
        until(lambda: copy.tiered_end == end, "the copy is complete")
        before = broker.broker.image
        until(
            lambda: (found := store.image(before.cluster_id)) is not None and found.offset >= before.offset,
            "the metadata is written down",
        )
        values = last_values(broker, topic)
        broker.kill()
    command = ("cluster", "restore", store.url, "--data", str(tmp_path / "new"), "--yes", "-o", "json")
    assert Cli("127.0.0.1:1").ok(*command).json["empty"] == []
    with EmbeddedBroker(store.settings, data_dir=tmp_path / "new") as broker:
        assert last_values(broker, topic) == values
        log = broker.broker.replicas.by_name[topic][0].log
        assert (log.local_start_offset, log.is_tiered) == (0, False)
        send(broker, topic, [("new", "value")])
        end = roll(broker, topic)
        until(lambda: copy.tiered_end == end, "copying goes on")
        assert copy.state() == {**values, b"new": b"value"}


def test_a_broker_may_allow_copies_for_all_topics_and_internal_ones_stay_here(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    settings = {
        **SETTINGS,
        "barnabas.remote.storage.url": f"file://{tmp_path}/bucket",
        "barnabas.remote.compacted": "copy",
    }
    with EmbeddedBroker(settings, data_dir=tmp_path / "data") as broker:
        topic = broker.create_topic(configs=COMPACTED)
        copy = Copy(broker, tmp_path / "bucket", topic)
        send(broker, topic, [("a", "1")])
        end = roll(broker, topic)
        until(lambda: copy.tiered_end == end, "it is copied")
        broker.create_topic("__consumer_offsets", partitions=1, configs={"cleanup.policy": "compact"})
        refused = alter(broker, "__consumer_offsets", "remote.storage.enable", "true")
        assert refused is not None
        assert NOT_COMPACTED in refused


def test_kafkas_rejection_applies_without_the_setting(broker: EmbeddedBroker) -> None:
    with pytest.raises(KafkaException) as refused:
        create(broker, "refused", COMPACTED)
    assert refused.value.args[0].str() == NOT_COMPACTED
    topic = broker.create_topic(configs=COPIED)
    assert alter(broker, topic, "barnabas.remote.compacted", "refuse") == NOT_COMPACTED


def test_a_topic_that_leaves_the_disk_does_not_become_a_compacted_one(broker: EmbeddedBroker) -> None:
    plain = {"remote.storage.enable": "true", "barnabas.remote.compacted": "copy"}
    topic = broker.create_topic(configs=plain)
    assert alter(broker, topic, "cleanup.policy", "compact") == NOT_COMPACTED_LATER


def create(broker: EmbeddedBroker, name: str, configs: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, config=configs)])[name].result(TIMEOUT)


def alter(broker: EmbeddedBroker, topic: str, name: str, value: str) -> str | None:
    """Return the error."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.incremental_alter_configs([resource]).values()
    try:
        future.result(TIMEOUT)
    except KafkaException as error:
        return str(error.args[0].str())
    return None
