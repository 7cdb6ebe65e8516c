"""A partition's folder is lost while its broker is stopped: no replica leads or follows with an empty log."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.broker.tiering.restored_partitions import MissingLogs
from barnabas.cluster.image import PartitionState
from barnabas.common.errors import KafkaError as KafkaProtocolError
from barnabas.common.types import TopicPartition as BarnabasPartition
from barnabas.testing import EmbeddedBroker, EmbeddedCluster
from barnabas.tiering.stores.store import StoreUnavailableError
from tests.support.cli import Cli
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

DEADLINE = 60.0
RECORDS = 100
VALUES = [str(number).encode() for number in range(RECORDS)]


def fill(bootstrap_servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"})
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE) == 0


def read(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "auto.offset.reset": "error"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records = consumer.consume(count, timeout=DEADLINE)
    consumer.close()
    assert all(record.error() is None for record in records)
    return [record.value() or b"" for record in records]


# -- a cluster ----------------------------------------------------------------------------------------


def state(cluster: EmbeddedCluster, topic: str) -> PartitionState:
    found = cluster.running[0].broker.image.partition(topic, 0)
    assert found is not None
    return found


def ends(cluster: EmbeddedCluster, topic: str) -> list[int]:
    replicas = [each.broker.replicas.find(topic, 0) for each in cluster.running]
    return [replica.log.log_end_offset for replica in replicas if replica is not None]


def tiered_settings(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bucket").mkdir()
    return {
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{tmp_path}/bucket",
        "remote.log.manager.task.interval.ms": "50",
    }


def test_a_leader_without_its_folder_leads_no_more_and_copies_everything() -> None:
    require_zookeeper()
    settings = {"zookeeper.session.timeout.ms": "3000", "log.initial.task.delay.ms": "0"}
    with EmbeddedCluster(brokers=3, settings=settings) as cluster:
        topic = cluster.create_topic(configs={"min.insync.replicas": "2"})
        fill(cluster.bootstrap_servers, topic)
        lost = cluster.leader_of(topic)
        folder = cluster.brokers[lost].data_dir
        noted = folder / "replication-offset-checkpoint"
        until(lambda: noted.exists() and f"{topic} 0 {RECORDS}" in noted.read_text(), "it is noted")
        until(lambda: set(state(cluster, topic).isr) == {1, 2, 3}, "all are in sync")
        for node in cluster.brokers:
            cluster.kill(node)
        shutil.rmtree(folder / f"{topic}-0")
        for node in sorted(cluster.brokers, key=lambda node: node != lost):
            cluster.brokers[node].start()
        until(lambda: state(cluster, topic).leader != lost, "others lead")
        until(lambda: set(state(cluster, topic).isr) == {1, 2, 3}, "it is in sync again")
        assert ends(cluster, topic) == [RECORDS] * 3
        assert read(cluster.bootstrap_servers, topic, RECORDS) == VALUES


@pytest.mark.parametrize("is_tiered", [False, True])
def test_the_last_leader_of_all_stays_offline_while_others_have_the_records(
    tmp_path: Path, is_tiered: bool
) -> None:
    """The brokers stop one after the other, so that only the last one is in sync; its folder is lost. The object store
    has nothing of it: the only segment is active."""
    require_zookeeper()
    settings = tiered_settings(tmp_path) if is_tiered else {}
    with EmbeddedCluster(brokers=3, settings=settings) as cluster:
        topic = cluster.create_topic(configs={"remote.storage.enable": str(is_tiered).lower()})
        fill(cluster.bootstrap_servers, topic)
        last = cluster.leader_of(topic)
        others = [node for node in cluster.brokers if node != last]
        until(lambda: ends(cluster, topic) == [RECORDS] * 3, "all have the records")
        for node in others:
            cluster.brokers[node].stop()
        until(lambda: state(cluster, topic).isr == (last,), "one is in sync")
        cluster.brokers[last].stop()
        shutil.rmtree(cluster.brokers[last].data_dir / f"{topic}-0")
        for node in (last, *others):
            cluster.brokers[node].start()
        until(lambda: state(cluster, topic).leader == -1, "the controller knows")
        assert cluster.brokers[last].broker.replicas.find(topic, 0) is None
        assert "--accept-loss" in cluster.brokers[last].broker.replicas.offline[topic, 0]  # type: ignore[index]
        assert ends(cluster, topic) == [RECORDS] * 2
        elect_another(cluster, topic, last, is_tiered)
        until(lambda: state(cluster, topic).leader in others, "another one leads")
        if is_tiered:
            cluster.brokers[last].start()
        until(lambda: ends(cluster, topic) == [RECORDS] * 3, "everything is copied")
        assert read(cluster.bootstrap_servers, topic, RECORDS) == VALUES


def elect_another(cluster: EmbeddedCluster, topic: str, last: int, is_tiered: bool) -> None:
    """An operator's election, knowing that another replica has the records."""
    if not is_tiered:
        cli = Cli(cluster.bootstrap_servers)
        cli.ok("configs", "set", "topic", topic, "unclean.leader.election.enable=true")
        return
    cluster.brokers[last].stop()  # an election takes the first replica that runs
    until(lambda: cluster.running[0].broker.image.brokers[last].fenced, "the controller knows")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(topic, 0)]).result(DEADLINE)


# -- one node -----------------------------------------------------------------------------------------


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A node whose topic `orders` has lost its folder."""
    broker = EmbeddedBroker(data_dir=tmp_path / "data")
    with broker:
        broker.create_topic("orders")
        fill(broker.bootstrap_servers, "orders")
        broker.stop()
        shutil.rmtree(tmp_path / "data" / "orders-0")
        broker.start()
        yield broker


def refusal(broker: EmbeddedBroker) -> KafkaError:
    """Error of a producer without retries."""
    answers: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "retries": 0, "message.timeout.ms": 5000}
    )
    producer.produce("orders", b"new", partition=0, on_delivery=lambda error, _: answers.append(error))
    producer.flush(DEADLINE)
    answer = answers[0]
    assert answer is not None
    return answer


def test_single_node_stays_offline_and_reports_a_remedy(lost: EmbeddedBroker, tmp_path: Path) -> None:
    for _ in range(2):
        assert refusal(lost) is not None
        (reason,) = lost.broker.replicas.offline.values()
        folder = tmp_path / "data" / "orders-0"
        assert f"the log in {folder} is damaged" in reason
        assert f"`barnabas log repair {folder} --accept-loss`" in reason
        assert "`barnabas topics delete orders`" in reason
        assert not folder.exists()
        lost.restart()


def test_accepted_loss_lets_a_single_node_start_empty(lost: EmbeddedBroker, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "orders-0"
    cli = Cli(lost.bootstrap_servers)
    assert "stop it first" in cli("log", "repair", str(folder), "--accept-loss", "--yes").err
    lost.stop()
    assert "--accept-loss" in cli("log", "repair", str(folder), "--yes").err
    assert cli("log", "repair", str(folder), "--accept-loss", stdin="n\n").code == 1
    given_up = cli.ok("log", "repair", str(folder), "--accept-loss", "--yes")
    assert "orders-0: given up with its records from offset 0 to 99" in given_up.out
    lost.start()
    assert lost.broker.replicas.offline == {}
    fill(lost.bootstrap_servers, "orders")
    lost.restart()
    assert read(lost.bootstrap_servers, "orders", RECORDS) == VALUES
    lost.stop()
    assert "nothing was changed" in cli.ok("log", "repair", str(tmp_path / "data"), "--accept-loss").err


def test_a_topic_that_lost_its_folder_can_be_deleted_and_created_again(lost: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": lost.bootstrap_servers})
    admin.delete_topics(["orders"])["orders"].result(DEADLINE)
    lost.create_topic("orders")
    fill(lost.bootstrap_servers, "orders")
    lost.restart()
    assert lost.broker.replicas.offline == {}
    assert read(lost.bootstrap_servers, "orders", RECORDS) == VALUES


# -- one node with an object store ----------------------------------------------------------------------


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A node whose topic `orders` has all its records in the object store."""
    with EmbeddedBroker(tiered_settings(tmp_path), data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders", configs={"remote.storage.enable": "true"})
        fill(broker.bootstrap_servers, "orders")
        log = broker.broker.replicas.by_name["orders"][0].log

        async def roll() -> None:
            log.roll()

        broker._in_thread().run(roll(), DEADLINE)
        until(lambda: log.tiered_checkpoint.end == RECORDS, "all is copied")
        yield broker


def lose_folder(broker: EmbeddedBroker) -> None:
    broker.stop()
    shutil.rmtree(broker.data_dir / "orders-0")
    broker.start()


def test_fully_copied_partition_is_served_from_the_store(tiered: EmbeddedBroker) -> None:
    lose_folder(tiered)
    until(lambda: tiered.broker.replicas.find("orders", 0) is not None, "the store was asked")
    assert read(tiered.bootstrap_servers, "orders", RECORDS) == VALUES
    assert tiered.broker.replicas.offline == {}


def test_more_than_the_store_has_is_given_up_by_an_operator_only(tiered: EmbeddedBroker) -> None:
    fill(tiered.bootstrap_servers, "orders")
    lose_folder(tiered)
    until(lambda: tiered.broker.replicas.offline, "the store was asked")
    (reason,) = tiered.broker.replicas.offline.values()
    assert f"up to offset {2 * RECORDS}" in reason
    assert "--accept-loss" in reason
    assert refusal(tiered) is not None
    cli, folder = Cli(tiered.bootstrap_servers), tiered.data_dir / "orders-0"
    tiered.stop()
    cli.ok("log", "repair", str(folder), "--accept-loss", "--yes")
    tiered.start()
    until(lambda: tiered.broker.replicas.find("orders", 0) is not None, "it begins again")
    assert read(tiered.bootstrap_servers, "orders", RECORDS) == VALUES
    fill(tiered.bootstrap_servers, "orders")
    assert read(tiered.bootstrap_servers, "orders", 2 * RECORDS) == [*VALUES, *VALUES]


def test_unresponsive_store_is_retried() -> None:
    async def run() -> None:
        answers: list[KafkaProtocolError | int] = [StoreUnavailableError("no answer"), 7]
        settled = asyncio.Event()

        async def tiered_end(tp: BarnabasPartition, topic_id: bytes) -> int:
            answer = answers.pop(0)
            if isinstance(answer, int):
                return answer
            raise answer

        missing = MissingLogs(tiered_end, lambda tp: settled.set())
        tp, topic_id = BarnabasPartition("orders", 0), bytes(16)
        assert missing.store_covers(tp, topic_id, 7) is None
        assert missing.store_covers(tp, topic_id, 7) is None
        await asyncio.wait_for(settled.wait(), DEADLINE)
        assert answers == []
        assert missing.store_covers(tp, topic_id, 7) is True
        assert missing.store_covers(tp, topic_id, 8) is False
        await missing.stop()

    asyncio.run(run())
