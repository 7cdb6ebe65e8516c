"""Restore of a cluster of several brokers: metadata in ZooKeeper, brokers with empty folders."""

from __future__ import annotations

import shutil
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.testing import EmbeddedBroker, EmbeddedCluster
from tests.support.cli import Cli
from tests.support.tiering.lost_cluster import TIERED, TIMEOUT, Store, produce, read
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

RECORDS = 2500


def test_brokers_with_empty_folders_serve_copied_records(tmp_path: Path) -> None:
    require_zookeeper()
    (tmp_path / "bucket").mkdir()
    store = Store(f"file://{tmp_path}/bucket")
    with EmbeddedCluster(2, {**store.settings, "replica.lag.time.max.ms": "2000"}) as cluster:
        cluster.create_topic("clicks", partitions=2, configs=TIERED)
        first = cluster.running[0]
        for index in range(2):
            produce(first, "clicks", range(RECORDS), index)
        commit(cluster.bootstrap_servers, {0: 700, 1: RECORDS})
        before = first.broker.image
        until(lambda: all(_ends(cluster, index) for index in range(2)), "segments leave the disks")
        ends = {index: _ends(cluster, index) for index in range(2)}
        until(lambda: _is_written(store, before.cluster_id, before.offset), "metadata are written down")
        until(lambda: list(tmp_path.glob("bucket/*/groups/*")), "offsets are written down")
        for node_id in list(cluster.brokers):
            cluster.kill(node_id)
        for broker in cluster.brokers.values():
            shutil.rmtree(broker.data_dir)
        path = f"{cluster.zookeeper.address}/restored"
        cli = Cli("127.0.0.1:1")
        command = ("cluster", "restore", store.url, "--zookeeper", path, "--yes", "-o", "json")
        done = cli.ok(*command).json
        assert (done["incarnation"], done["offsets"]) == (1, 2)
        again = cli(*command)
        assert (again.code, "holds cluster" in again.err) == (1, True)
        for broker in cluster.brokers.values():
            broker.settings["zookeeper.connect"] = path
            broker.start()
        assert committed(cluster.bootstrap_servers) == {0: 700, 1: min(RECORDS, ends[1])}
        for index, end in ends.items():
            leader = _leader(cluster, index)
            assert read(leader, "clicks", index) == [(offset, offset) for offset in range(end)]
            produce(leader, "clicks", range(end, end + 100), index)
            assert len(read(leader, "clicks", index)) == end + 100
        until(
            lambda: all(_in_sync(cluster, index) for index in range(2)), "replicas follow from the tiered end"
        )


def commit(bootstrap: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    places = [TopicPartition("clicks", index, offset) for index, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> dict[int, int]:
    """Once there is a coordinator: librdkafka does not wait for it here."""
    places = [TopicPartition("clicks", index) for index in range(2)]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})

    def committed_offsets() -> list[TopicPartition]:
        try:
            return consumer.committed(places, timeout=TIMEOUT)
        except KafkaException as error:
            if error.args[0].name() != "NOT_COORDINATOR":
                raise
            return []

    found = until(committed_offsets, "no coordinator")
    consumer.close()
    return {each.partition: each.offset for each in found}


def _ends(cluster: EmbeddedCluster, index: int) -> int:
    """The tiered end, once only the active segment is left on the leader's disk; 0 before."""
    leader = _leader(cluster, index)
    folder = leader.data_dir / f"clicks-{index}"
    if len(list(folder.glob("*.log"))) != 1:
        return 0
    return leader.broker.replicas.by_name["clicks"][index].log.offsets.tiered_end


def _leader(cluster: EmbeddedCluster, index: int) -> EmbeddedBroker:
    until(lambda: cluster.leader_of("clicks", index) > 0, "there is a leader")
    return cluster.brokers[cluster.leader_of("clicks", index)]


def _in_sync(cluster: EmbeddedCluster, index: int) -> bool:
    state = cluster.running[0].broker.image.partition("clicks", index)
    return state is not None and len(state.isr) == 2


def _is_written(store: Store, cluster_id: str, offset: int) -> bool:
    image = store.image(cluster_id)
    return image is not None and image.offset >= offset
