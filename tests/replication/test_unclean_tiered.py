"""Elections of tiered topics while the object store hangs: clean ones do not wait for it, unclean ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from barnabas.broker.tiering import leader_log as led_log
from barnabas.cluster.image import RECOVERED, RECOVERING
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.cluster import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import Manifest, decode
from barnabas.tiering.stores.opening import FolderStore
from tests.replication.test_moving import ask, move
from tests.replication.test_tiered_replicas import create, log_of, numbers, produce, until_tiered
from tests.support.clusters import Brokers
from tests.support.waiting import until

TIMEOUT = 60
UNCLEAN = 1
TOPIC = "clicks"


class Hanging:
    """While it hangs, no request to the store is answered; then all are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hangs = False
        for name in ("get", "get_range", "create", "replace", "put", "upload", "delete"):
            monkeypatch.setattr(FolderStore, name, self._waiting(getattr(FolderStore, name)))

    def _waiting(self, call: Any) -> Any:
        async def wait(*args: Any) -> Any:
            while self.hangs:  # noqa: ASYNC110 - another thread says when
                await asyncio.sleep(0.01)
            return await call(*args)

        return wait


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Hanging:
    return Hanging(monkeypatch)


@pytest.fixture
def brokers(tmp_path: Path, store: Hanging) -> Iterator[Brokers]:
    (tmp_path / "bucket").mkdir()
    settings = {
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{tmp_path}/bucket",
        "remote.log.manager.task.interval.ms": "50",
        "log.retention.check.interval.ms": "100",
        "barnabas.remote.delete.delay.ms": "0",
    }
    with Brokers(tmp_path, 3, settings) as running:
        yield running
        store.hangs = False


def leads(brokers: Brokers, number: int) -> bool:
    """False also while a broker that was just started does not have the partition yet."""
    partition = brokers.brokers[number].replicas.find(TOPIC, 0)
    return partition is not None and partition.is_leader


def is_recovering(brokers: Brokers, number: int) -> bool:
    partition = brokers.brokers[number].replicas.find(TOPIC, 0)
    return partition is not None and partition.is_recovering


def log_end(brokers: Brokers, number: int) -> int:
    partition = brokers.brokers[number].replicas.find(TOPIC, 0)
    return -1 if partition is None else partition.log.log_end_offset


def elect(brokers: Brokers) -> ErrorCode:
    wanted = ElectLeadersRequest(
        election_type=UNCLEAN, topic_partitions=[TopicPartitions(TOPIC, [0])], timeout_ms=30_000
    )
    response = ask(brokers, brokers.controller, wanted)
    return ErrorCode(response.replica_election_results[0].partition_result[0].error_code)


def lose_the_leader(brokers: Brokers) -> tuple[int, int, int]:
    """(remaining replica, its log end, tiered end): it lacks half of the copied records."""
    create(brokers, TOPIC, replicas=2)
    first, second = brokers.state(TOPIC).replicas
    produce(brokers, TOPIC, 0, 2500)
    until(lambda: log_of(brokers, second, TOPIC).log_end_offset == 2500, "the follower is behind")
    brokers.kill(second)
    until(lambda: brokers.state(TOPIC).isr == (first,), "the follower stays in sync")
    produce(brokers, TOPIC, 2500, 6000)
    until_tiered(brokers, first, TOPIC)
    tiered_end = log_of(brokers, first, TOPIC).offsets.tiered_end
    assert tiered_end > 4000
    brokers.kill(first)
    until(lambda: brokers.state(TOPIC).leader == -1, "nobody notices")
    brokers.start(second)
    assert brokers.state(TOPIC).leader == -1
    return second, 2500, tiered_end


def manifest_of(brokers: Brokers, tmp_path: Path) -> Manifest:
    broker = brokers.any
    folder = PartitionFolder(broker.cluster_id, TOPIC, broker.image.topics[TOPIC].topic_id, 0)
    return decode((tmp_path / "bucket" / folder.manifest).read_bytes(), folder)


def do_not_wait(brokers: Brokers) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
    entry = ConfigEntry("barnabas.remote.unclean.wait", "false", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT)


def fetch_error(brokers: Brokers, number: int) -> ErrorCode:
    topic_id = brokers.any.image.topics[TOPIC].topic_id
    wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, fetch_offset=0)])
    response = ask(brokers, number, FetchRequest(max_wait_ms=0, max_bytes=1000, topics=[wanted]))
    return ErrorCode(response.responses[0].partitions[0].error_code)


def test_a_clean_failover_asks_nothing_of_the_store(brokers: Brokers, store: Hanging) -> None:
    create(brokers, TOPIC, replicas=2)
    first, second = brokers.state(TOPIC).replicas
    produce(brokers, TOPIC, 0, 4000)
    until_tiered(brokers, first, TOPIC)
    store.hangs = True
    brokers.kill(first)
    until(lambda: brokers.state(TOPIC).leader == second, "nobody takes over")
    produce(brokers, TOPIC, 4000, 4500)
    assert log_of(brokers, second, TOPIC).high_watermark == 4500
    store.hangs = False
    assert numbers(brokers, TOPIC) == list(range(4500))


def test_unclean_leader_is_offline_until_it_has_read_the_manifest_and_continues_at_its_end(
    brokers: Brokers, store: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    second, _, tiered_end = lose_the_leader(brokers)
    store.hangs = True
    assert elect(brokers) is ErrorCode.NONE
    until(lambda: is_recovering(brokers, second), "it does not wait")
    assert brokers.state(TOPIC).leader_recovery_state == RECOVERING
    assert (
        "it is offline until this broker, its leader, has compared the log with the object store"
        in caplog.text
    )
    assert fetch_error(brokers, second) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "message.timeout.ms": 1500})
    producer.produce(TOPIC, b"too early")
    assert producer.flush(TIMEOUT) == 0
    assert log_of(brokers, second, TOPIC).log_end_offset == 2500
    store.hangs = False
    until(lambda: leads(brokers, second), "it does not come online")
    until(lambda: brokers.state(TOPIC).leader_recovery_state == RECOVERED, "nobody is told")
    assert numbers(brokers, TOPIC) == list(range(tiered_end))
    produce(brokers, TOPIC, tiered_end, tiered_end + 2000)
    until_tiered(brokers, second, TOPIC)
    assert numbers(brokers, TOPIC) == list(range(tiered_end + 2000))


def test_operator_may_continue_without_the_store_and_contradicting_objects_are_quarantined(
    brokers: Brokers, store: Hanging, tmp_path: Path
) -> None:
    second, end, _ = lose_the_leader(brokers)
    store.hangs = True
    assert elect(brokers) is ErrorCode.NONE
    until(lambda: is_recovering(brokers, second), "it does not wait")
    do_not_wait(brokers)
    produce(brokers, TOPIC, 10_000, 10_100)
    store.hangs = False
    until(lambda: bool(manifest_of(brokers, tmp_path).quarantine), "nothing is cut")
    kept = [*range(end), *range(10_000, 10_100)]
    assert numbers(brokers, TOPIC) == kept
    manifest = manifest_of(brokers, tmp_path)
    assert (manifest.tiered_end, manifest.entries[-1].end) == (end, end)
    assert all((tmp_path / "bucket").rglob(each.key) for each in manifest.quarantine)
    third = next(number for number in brokers.brokers if number != second)
    assert move(brokers, TOPIC, [third]) == ErrorCode.NONE
    until(lambda: brokers.state(TOPIC).leader == third, "no replica can begin behind the cut")
    assert log_of(brokers, third, TOPIC).segments.base_offset == end
    assert numbers(brokers, TOPIC) == kept


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "killed before it has written the marker"])
def test_a_log_whose_replicas_are_all_lost_begins_at_the_tiered_end_without_a_transaction_that_hangs(
    brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    create(brokers, TOPIC, replicas=1)
    (first,) = brokers.state(TOPIC).replicas
    producer = Producer(
        {"bootstrap.servers": brokers.bootstrap_servers, "transactional.id": "one", "linger.ms": 5}
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    for number in range(3500):  # the marker is after the last sealed segment
        producer.produce(TOPIC, f"{number} ".encode() + bytes(1000))
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0
    producer.commit_transaction(TIMEOUT)
    until_tiered(brokers, first, TOPIC)
    tiered_end = log_of(brokers, first, TOPIC).offsets.tiered_end
    brokers.kill(first)
    for path in sorted((tmp_path / f"{first}-0").glob(f"{TOPIC}-0/*")):
        path.unlink()
    (tmp_path / f"{first}-0" / f"{TOPIC}-0").rmdir()
    if is_killed:
        with monkeypatch.context() as patched:
            patched.setattr(led_log, "write_lost_markers", die)
            brokers.start(first)
            until(lambda: log_end(brokers, first) == tiered_end, "the log is not restored")
            brokers.kill(first)
    brokers.start(first)
    until(lambda: leads(brokers, first), "it does not come online")
    log = log_of(brokers, first, TOPIC)
    until(lambda: log.log_end_offset == tiered_end + 1, "no marker is written")
    until(lambda: log.last_stable_offset == tiered_end + 1, "the last stable offset is stuck")
    assert numbers(brokers, TOPIC)[:10] == list(range(10))


def die(*_: object) -> int:
    raise RuntimeError("killed")


def test_the_objects_of_a_deleted_topic_go_though_leader_and_controller_die_first(
    brokers: Brokers, store: Hanging, tmp_path: Path
) -> None:
    create(brokers, TOPIC, replicas=1)
    (first,) = brokers.state(TOPIC).replicas
    produce(brokers, TOPIC, 0, 3000)
    until_tiered(brokers, first, TOPIC)
    store.hangs = True
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
    admin.delete_topics([TOPIC])[TOPIC].result(TIMEOUT)
    for number in {first, brokers.controller}:
        brokers.kill(number)
    store.hangs = False
    until(lambda: not list((tmp_path / "bucket").rglob("*.segment")), "objects stay")
    until(lambda: not list((tmp_path / "bucket").rglob("manifest")), "the manifest stays")
    assert len(brokers.any.image.remote_deletions) == 1  # another lookup follows later
