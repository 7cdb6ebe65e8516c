"""Compaction: its rate, and its effect on produce latency.

A log is filled while its topic has cleanup.policy=delete; switching it to compact starts the measurement. It ends when
the cleaner's checkpoint, which both brokers write after they have swapped the segments, covers the log.
"""

import time

from benchmarks.loads import client, with_cpu
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import COORDINATION_CPU_TARGET, CPU, MeasureBroker, both_of
from benchmarks.rows.latency import P50, P99
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_LOG_BYTES, _SEGMENT_BYTES = 256 << 20, 16 << 20
_PRODUCE_SECONDS, _AT_MOST_COMPACTED_IN_A_SECOND = 3, 128 << 20
_MAX_SECONDS, _LOOK_EVERY_SECONDS = 120, 0.01
_NOT_YET = {"cleanup.policy": "delete", "segment.bytes": str(_SEGMENT_BYTES)}
_START = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


def compact(record_bytes: int) -> MeasureBroker:
    def measure(session: Session, broker: Broker) -> Figures:
        topic = _filled_topic(session, broker, session.scaled(_LOG_BYTES), record_bytes)
        figures = with_cpu(broker, lambda: _compaction_rate(session, broker, topic))
        session.delete_topic(broker, topic)
        return figures

    return measure


def _compaction_rate(session: Session, broker: Broker, topic: str) -> float:
    """Megabytes per second, relative to the uncompacted log."""
    end = _start_of_last_segment(broker, topic)
    size = broker.log_bytes(topic, partitions=1)
    begin = time.perf_counter()
    session.alter_topic(broker, topic, _START)
    _wait_until_compacted(broker, topic, end)
    return size / (time.perf_counter() - begin) / 1e6


def produce_beside_compaction(session: Session, broker: Broker) -> Figures:
    """Produce while compaction runs on a log large enough to keep either cleaner busy throughout."""
    seconds = session.scaled(_PRODUCE_SECONDS)
    filled = _filled_topic(session, broker, seconds * _AT_MOST_COMPACTED_IN_A_SECOND, record_bytes=100)
    topic = session.fresh_topic(broker, 1)
    options = ("--rate", 5000, "--seconds", seconds)
    session.alter_topic(broker, filled, _START)
    figures = client("produce_latency", "--bootstrap", broker.bootstrap, "--topic", topic, *options)
    for used in (filled, topic):
        session.delete_topic(broker, used)
    return figures


def _filled_topic(session: Session, broker: Broker, size: int, record_bytes: int) -> str:
    topic = session.fresh_topic(broker, 1, _NOT_YET)
    options = ("--bytes", size, "--record-bytes", record_bytes)
    client("keyed_fill", "--port", broker.port, "--topic", topic, *options)
    session.settle()  # writeback of the produced records is not part of compaction
    return topic


def _start_of_last_segment(broker: Broker, topic: str) -> int:
    """Base offset of the active segment, which is not compacted."""
    return max(int(path.stem) for path in broker.partition_dir(topic, 0).glob("*.log"))


def _wait_until_compacted(broker: Broker, topic: str, end: int) -> None:
    deadline = time.monotonic() + _MAX_SECONDS
    while broker.cleaned_upto(topic) < end:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{broker.name} has not compacted the log in {_MAX_SECONDS} s")
        time.sleep(_LOOK_EVERY_SECONDS)


def _rate_row(name: str, title: str, record_bytes: int) -> Row:
    return Row(
        name,
        title,
        both_of("compacting", compact(record_bytes)),
        (Metric("rate", "MB/s"), CPU),
        (Target("rate", ">=", 1.0), COORDINATION_CPU_TARGET),
    )


ROWS = (
    _rate_row("compaction-100b", "compaction of 100 B records, 20 for each key", 100),
    _rate_row("compaction-1kb", "compaction of 1 KB records, 20 for each key", 1000),
    Row(
        "compaction-latency",
        "produce latency at 5,000/s during compaction",
        both_of("compacting", produce_beside_compaction),
        (P50, P99),
        (Target("p99_us", "<=", 1.0),),
    ),
)
