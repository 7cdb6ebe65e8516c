"""Share groups: records acquired and accepted by one member and by eight."""

import itertools

from benchmarks.loads import client, producer_perf_test, with_cpu
from benchmarks.model import Figures, Row, Target
from benchmarks.rows.common import COORDINATION_CPU_TARGET, CPU, RATE, both
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_RECORDS, _PARTITIONS = 1_000_000, 6
_groups = (f"bench-share-{number}" for number in itertools.count())
# Typical for a producer with linger.ms=5: batches of a few hundred records.
_BATCHES_OF_16_KB = {"acks": "1", "batch.size": "16384", "linger.ms": "5"}


def write_what_is_taken(session: Session) -> None:
    for key in ("kafka", "barnabas"):
        broker = session.broker(key)
        topic = session.fresh_topic(broker, _PARTITIONS)
        producer_perf_test(broker, topic, session.scaled(_RECORDS), 100, _BATCHES_OF_16_KB)
        session.keep(broker, "share", topic)


def _take(session: Session, broker: Broker, consumers: int) -> Figures:
    def load() -> float:
        figures = client(
            "share",
            *("--port", broker.port, "--topic", session.kept(broker, "share")),
            *("--partitions", _PARTITIONS, "--group", next(_groups)),
            *("--consumers", consumers, "--records", session.scaled(_RECORDS)),
        )
        return figures["records"] / figures["seconds"]

    return with_cpu(broker, load)


def take_alone(session: Session, broker: Broker) -> Figures:
    return _take(session, broker, 1)


def take_together(session: Session, broker: Broker) -> Figures:
    return _take(session, broker, 8)


_TARGETS = (Target("rate", ">=", 1.0, or_within_spread=True), COORDINATION_CPU_TARGET)

ROWS = (
    Row(
        "share",
        "share group: take and accept 100 B, 6 partitions, 1 consumer",
        both(take_alone),
        (RATE, CPU),
        _TARGETS,
        prepare=write_what_is_taken,
    ),
    Row(
        "share-8",
        "share group: take and accept 100 B, 6 partitions, 8 consumers",
        both(take_together),
        (RATE, CPU),
        _TARGETS,
        prepare=write_what_is_taken,
    ),
)
