"""A new replica: three untiered Apache Kafka brokers copy the whole log, tiered Barnabas brokers only its tail."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.client.cluster import Client
from barnabas.client.placement.reassignments import alter
from barnabas.common.types import TopicPartition
from benchmarks.loads import client
from benchmarks.model import BARNABAS, KAFKA, Figures, Metric, Row, Subject, Target
from benchmarks.rows.cluster import SECONDS
from benchmarks.rows.tiering.tiered import NOT_TIERED, TIERED, tiered_end, until
from benchmarks.session import Session
from benchmarks.subjects.clusters import Cluster, wait_for
from benchmarks.subjects.object_store import missing

# The design specifies 10 GB. 2 GB keep the row below two minutes, with the same ratio: the tail is a hundredth.
_LOG_BYTES = 2_000_000_000
_TAIL_SHARE = 100
OLD, NEW = 1, 2
MEGABYTES = Metric("mb", "MB on the new replica", digits=1)
SHARE = 0.05
_CLUSTERS: Mapping[str, Mapping[str, str]] = {
    "kafka": {"retention.ms": "-1", "file.delete.delay.ms": "0"},
    "barnabas-tiers": {**NOT_TIERED, **TIERED},
}


def prepare(session: Session) -> None:
    """Create one replica on the first broker; only the active segment of the tiered topic remains on disk."""
    size = session.scaled(_LOG_BYTES)
    for key, config in _CLUSTERS.items():
        cluster = session.cluster(key)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        settings = {**config, "segment.bytes": str(size // _TAIL_SHARE)}
        topic = NewTopic("history", 1, replica_assignment=[[OLD]], config=settings)
        for created in admin.create_topics([topic], request_timeout=60).values():
            created.result(60)
        wait_for(admin, "history", lambda leader, isr: leader == OLD and isr == 1)
        _, port = cluster.addresses()[OLD - 1]
        client("fill", "--port", port, "--topic", "history", "--bytes", size)
    until(
        lambda: len(logs(session.cluster("barnabas-tiers"), OLD)) == 1, "all but the tail has left the disk"
    )
    assert tiered_end(session.cluster("barnabas-tiers").bootstrap, "history") > 0


def logs(cluster: Cluster, node_id: int) -> list[int]:
    """Sizes of a replica's segments."""
    return [path.stat().st_size for path in (cluster.log_dir(node_id) / "history-0").glob("*.log")]


def new_replica(key: str) -> Subject:
    def measure(session: Session) -> Figures:
        cluster = session.cluster(key)
        begin = time.perf_counter()
        reassign(cluster, [OLD, NEW])
        seconds = time.perf_counter() - begin
        size = sum(logs(cluster, NEW))
        reassign(cluster, [OLD])
        until(lambda: not (cluster.log_dir(NEW) / "history-0").exists(), "the replica is removed")
        return {"seconds": seconds, "mb": size / 1e6}

    return Subject(KAFKA if key == "kafka" else BARNABAS, measure)


def reassign(cluster: Cluster, replicas: Sequence[int]) -> None:
    """Reassign the partition and wait until the ISR has as many members as `replicas`."""

    async def ask() -> None:
        async with Client(cluster.bootstrap) as connected:
            await alter(connected, {TopicPartition("history", 0): replicas})

    asyncio.run(ask())
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wait_for(admin, "history", lambda _, isr: isr == len(replicas))


ROWS = (
    Row(
        "tier-replica",
        "three brokers: a new replica of a 2 GB log, all but 1 % of it in the object store; Kafka without tiers",
        (new_replica("kafka"), new_replica("barnabas-tiers")),
        (SECONDS, MEGABYTES),
        (Target("seconds", "<=", SHARE), Target("mb", "<=", SHARE)),
        prepare=prepare,
        missing=missing,
        warm_up=False,
    ),
)
