"""Clusters of three brokers: replicated writes, and creation and failover of a thousand partitions."""

import time
from collections.abc import Callable, Mapping

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.clients.probe import Probe
from benchmarks.floors import disk_floor
from benchmarks.loads import client, producer_perf_test, with_cpu
from benchmarks.model import BARNABAS, KAFKA, Figures, Metric, Row, Subject, Target
from benchmarks.rows.common import CPU, CPU_TARGET, RATE, WITH_FSYNC
from benchmarks.rows.latency import P50, P99
from benchmarks.rows.latency import seconds as latency_seconds
from benchmarks.rows.produce import BATCHES_OF_128_KB
from benchmarks.session import Session
from benchmarks.subjects.clusters import BROKERS, Cluster, create_topic, running, wait_for

_RECORDS, _PARTITIONS, _MANY_PARTITIONS = 2_000_000, 6, 1_000
_LATENCY_RATE, _LATENCY_WARM_SECONDS = 2_000, 20
SECONDS = Metric("seconds", "s", digits=2)
MAX_LATENCY = Metric("longest_ms", "ms longest answer", digits=1)

MeasureCluster = Callable[[Session, Cluster], Figures]


def produce(properties: Mapping[str, str]) -> MeasureCluster:
    def measure(session: Session, cluster: Cluster) -> Figures:
        topic, count = replicated_topic(session, cluster, _PARTITIONS), session.scaled(_RECORDS)
        return with_cpu(cluster, lambda: producer_perf_test(cluster, topic, count, 100, properties))

    return measure


def latency(session: Session, cluster: Cluster) -> Figures:
    """Three JVMs on two cores need a warm-up of half a minute before they sustain this rate."""
    topic = replicated_topic(session, cluster, 1)
    warm_up = _LATENCY_RATE * _LATENCY_WARM_SECONDS
    options = (
        "--rate",
        _LATENCY_RATE,
        "--seconds",
        latency_seconds(session),
        "--acks",
        "all",
        "--warm-up",
        warm_up,
    )
    return client("produce_latency", "--bootstrap", cluster.bootstrap, "--topic", topic, *options)


def disk_latency(session: Session) -> Figures:
    return disk_floor.sync_latency(session.scratch, _LATENCY_RATE, latency_seconds(session))


def replicated_topic(session: Session, cluster: Cluster, partitions: int) -> str:
    topic = NewTopic(session.new_name(), partitions, BROKERS)
    create_topic(cluster, topic)
    return str(topic.topic)


def creation(session: Session, cluster: Cluster) -> Figures:
    """Time until a thousand partitions have leaders and full ISRs, and the longest ApiVersions response meanwhile."""
    topic = NewTopic(session.new_name(), _MANY_PARTITIONS, BROKERS)
    begin = time.monotonic()
    with Probe(cluster.addresses()) as probe:
        create_topic(cluster, topic)
        took = time.monotonic() - begin
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_topics([topic.topic]).values():
        deleted.result(60)
    return {"seconds": took, "longest_ms": probe.longest * 1000}


def failover(key: str) -> Subject:
    """Time from killing the leader of a thousand partitions, not the controller, until all have new leaders."""

    def measure(session: Session) -> Figures:
        with running(session.new_cluster(key)) as cluster:
            controller = cluster.controller_id()
            victim = next(node for node in range(1, BROKERS + 1) if node != controller)
            others = [node for node in range(1, BROKERS + 1) if node != victim]
            placed = [[victim, *others] if index % 2 else [victim, *others[::-1]] for index in range(1000)]
            topic = NewTopic("led", _MANY_PARTITIONS, replica_assignment=placed)
            create_topic(cluster, topic)
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            begin = time.monotonic()
            cluster.kill(victim)
            wait_for(admin, "led", lambda leader, _: leader not in (victim, -1))
            return {"seconds": time.monotonic() - begin}

    return Subject(KAFKA if key.startswith("kafka") else BARNABAS, measure)


def on_cluster(name: str, key: str, measure: MeasureCluster) -> Subject:
    return Subject(name, lambda session: measure(session, session.cluster(key)))


def both(measure: MeasureCluster) -> tuple[Subject, ...]:
    return on_cluster(KAFKA, "kafka", measure), on_cluster(BARNABAS, "barnabas", measure)


def with_fsync(measure: MeasureCluster) -> tuple[Subject, ...]:
    """The ratio is without fsync, as in Kafka; `auto` waits for the disk because all replicas are on one host."""
    return (*both(measure), on_cluster(WITH_FSYNC, "barnabas-fsync", measure))


NOT_SLOWER = Target("seconds", "<=", 1.0, or_within_spread=True)

ROWS = (
    Row(
        "cluster-produce-batched",
        "three brokers: produce 100 B, acks=all, 128 KB batches",
        with_fsync(produce({"acks": "all", **BATCHES_OF_128_KB})),
        (RATE, CPU),
        (Target("rate", ">=", 1.2), CPU_TARGET),
    ),
    Row(
        "cluster-produce-default",
        "three brokers: produce 100 B, the client's defaults",
        with_fsync(produce({"acks": "all"})),
        (RATE, CPU),
        (Target("rate", ">=", 1.2), CPU_TARGET),
    ),
    Row(
        "cluster-latency",
        "three brokers: produce latency at 2,000/s, acks=all",
        (*with_fsync(latency), Subject("the disk alone, fdatasync in groups", disk_latency)),
        (P50, P99),
        (Target("p99_us", "<=", 0.7),),
    ),
    Row(
        "cluster-create-topic",
        "three brokers: create a topic of 1,000 partitions",
        both(creation),
        (SECONDS, MAX_LATENCY),
        # Seen from outside, with three brokers and the client sharing the cores. A test limits each step of the loop to
        # 20 ms: tests/broker/test_many_partitions.py.
        (NOT_SLOWER, Target("longest_ms", "<=", 1.0)),
    ),
    Row(
        "cluster-failover",
        "three brokers: kill the leader of 1,000 partitions",
        (failover("kafka"), failover("barnabas")),
        (SECONDS,),
        (NOT_SLOWER,),
        warm_up=False,
    ),
)
