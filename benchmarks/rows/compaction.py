"""Compaction: how fast a log is compacted, and what producers notice of it.

A log is filled while its topic only deletes; turning the topic into a compacted one is the starting gun. When it is
over stands in the cleaner's checkpoint, which both brokers write when they have swapped the segments.
"""

import time

from benchmarks.brokers import Broker
from benchmarks.loads import client
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import COORDINATION_CPU_TARGET, CPU, both_of
from benchmarks.rows.latency import P50, P99
from benchmarks.session import Session

_LOG_BYTES, _SEGMENT_BYTES = 256 << 20, 16 << 20
_PRODUCE_SECONDS, _AT_MOST_COMPACTED_IN_A_SECOND = 3, 128 << 20
_LONGEST_SECONDS, _LOOK_EVERY_SECONDS = 120, 0.01
_NOT_YET = {"cleanup.policy": "delete", "segment.bytes": str(_SEGMENT_BYTES)}
_START = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


def compact(session: Session, broker: Broker) -> Figures:
    topic = _filled_topic(session, broker, session.scaled(_LOG_BYTES))
    end = _start_of_last_segment(broker, topic)
    size = broker.log_bytes(topic, partitions=1)
    cpu, begin = broker.cpu_seconds(), time.perf_counter()
    session.alter_topic(broker, topic, _START)
    _wait_until_compacted(broker, topic, end)
    seconds = time.perf_counter() - begin
    figures = {"rate": size / seconds / 1e6, "cpu": broker.cpu_seconds() - cpu}
    session.delete_topic(broker, topic)
    return figures


def produce_beside_compaction(session: Session, broker: Broker) -> Figures:
    """Beside a log that is large enough to keep either cleaner busy all the while."""
    seconds = session.scaled(_PRODUCE_SECONDS)
    filled = _filled_topic(session, broker, seconds * _AT_MOST_COMPACTED_IN_A_SECOND)
    topic = session.fresh_topic(broker, 1)
    options = ("--rate", 5000, "--seconds", seconds)
    session.alter_topic(broker, filled, _START)
    figures = client("produce_latency", "--bootstrap", broker.bootstrap, "--topic", topic, *options)
    for used in (filled, topic):
        session.delete_topic(broker, used)
    return figures


def _filled_topic(session: Session, broker: Broker, size: int) -> str:
    topic = session.fresh_topic(broker, 1, _NOT_YET)
    client("keyed_fill", "--port", broker.port, "--topic", topic, "--bytes", size)
    session.settle()  # writing back what was just produced is no part of compaction
    return topic


def _start_of_last_segment(broker: Broker, topic: str) -> int:
    """The segment that is written to is not compacted."""
    return max(int(path.stem) for path in broker.partition_dir(topic, 0).glob("*.log"))


def _wait_until_compacted(broker: Broker, topic: str, end: int) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while broker.cleaned_upto(topic) < end:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{broker.name} has not compacted the log in {_LONGEST_SECONDS} s")
        time.sleep(_LOOK_EVERY_SECONDS)


ROWS = (
    Row(
        "compaction",
        "compaction of a log of 100 B records, 20 for each key",
        both_of("compacting", compact),
        (Metric("rate", "MB/s"), CPU),
        (Target("rate", ">=", 1.0), COORDINATION_CPU_TARGET),
    ),
    Row(
        "compaction-latency",
        "produce latency at 5,000/s beside compaction",
        both_of("compacting", produce_beside_compaction),
        (P50, P99),
        (Target("p99_us", "<=", 1.0),),
    ),
)
