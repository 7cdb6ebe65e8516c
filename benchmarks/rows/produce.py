"""Produce rates with kafka-producer-perf-test: a fixed number of records into an empty topic."""

from collections.abc import Mapping

from benchmarks.loads import producer_perf_test, with_cpu
from benchmarks.model import Figures, Row, Target
from benchmarks.rows.common import CPU, CPU_TARGET, RATE, MeasureBroker, both, both_and_with_fsync, both_of
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker
from benchmarks.subjects.slow_disk import missing_compiler

BATCHES_OF_128_KB = {"batch.size": "131072", "linger.ms": "5"}


def produce(records: int, record_bytes: int, partitions: int, properties: Mapping[str, str]) -> MeasureBroker:
    def measure(session: Session, broker: Broker) -> Figures:
        topic = session.fresh_topic(broker, partitions)
        count = session.scaled(records)
        figures = with_cpu(broker, lambda: producer_perf_test(broker, topic, count, record_bytes, properties))
        session.delete_topic(broker, topic)
        return figures

    return measure


def acknowledged_by_one(name: str, title: str, at_least: float, measure: MeasureBroker) -> Row:
    return Row(name, title, both(measure), (RATE, CPU), (Target("rate", ">=", at_least), CPU_TARGET))


def acknowledged_by_all(name: str, title: str, at_least: float, measure: MeasureBroker) -> Row:
    subjects = both_and_with_fsync(measure)
    return Row(name, title, subjects, (RATE, CPU), (Target("rate", ">=", at_least), CPU_TARGET))


def to_disk(kind: str, title: str, records: int) -> Row:
    """A disk that was slow once must not slow the broker down: appends to it are pending (decision 22)."""
    return Row(
        f"produce-{kind}",
        f"produce 100 B, 6 partitions, acks=1, 128 KB batches, {title}",
        both_of(kind, produce(records, 100, 6, {"acks": "1", **BATCHES_OF_128_KB})),
        (RATE, CPU),
        (Target("rate", ">=", 0.9), CPU_TARGET),
        missing=missing_compiler,
    )


ROWS = (
    acknowledged_by_one(
        "produce-default",
        "produce 100 B, 1 partition, acks=1",
        1.3,
        produce(2_000_000, 100, 1, {"acks": "1"}),
    ),
    acknowledged_by_one(
        "produce-batched",
        "produce 100 B, 6 partitions, acks=1, 128 KB batches",
        1.2,
        produce(4_000_000, 100, 6, {"acks": "1", **BATCHES_OF_128_KB}),
    ),
    acknowledged_by_all(
        "produce-acks-all",
        "produce 100 B, 1 partition, acks=all, 128 KB batches",
        1.1,
        produce(3_000_000, 100, 1, {"acks": "all", **BATCHES_OF_128_KB}),
    ),
    acknowledged_by_all(
        "produce-lz4",
        "produce 1 KB, 6 partitions, acks=all, lz4, 256 KB batches",
        1.2,
        produce(
            600_000,
            1024,
            6,
            {"acks": "all", "compression.type": "lz4", "batch.size": "262144", "linger.ms": "5"},
        ),
    ),
    acknowledged_by_one(
        "produce-unbatched",
        "produce 100 B, unbatched (batch.size=1, linger 0), acks=1",
        1.2,
        produce(120_000, 100, 1, {"acks": "1", "batch.size": "1", "linger.ms": "0"}),
    ),
    to_disk("slow-disk", "each write takes 10 ms, and every 2 s one takes 200 ms", 500_000),
    to_disk("stalling-disk", "the disk stalls for 200 ms every 2 s", 4_000_000),
)
