"""Shared parts of throughput rows: a rate and CPU seconds."""

from collections.abc import Callable

from benchmarks.model import BARNABAS, KAFKA, Figures, Metric, Subject, Target
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

RATE = Metric("rate", "records/s")
CPU = Metric("cpu", "s CPU", digits=2)
CPU_TARGET = Target("cpu", "<=", 0.5)
# Coordination and background work may cost slightly more.
COORDINATION_CPU_TARGET = Target("cpu", "<=", 0.7)
WITH_FSYNC = "Barnabas, fsync=auto"

MeasureBroker = Callable[[Session, Broker], Figures]


def subject(name: str, broker: str, measure: MeasureBroker) -> Subject:
    return Subject(name, lambda session: measure(session, session.broker(broker)))


def both(measure: MeasureBroker) -> tuple[Subject, ...]:
    """Kafka and Barnabas with the same measurement."""
    return subject(KAFKA, "kafka", measure), subject(BARNABAS, "barnabas", measure)


def both_of(kind: str, measure: MeasureBroker) -> tuple[Subject, ...]:
    """Same as `both`, on brokers with the settings of `kind`."""
    return subject(KAFKA, f"kafka-{kind}", measure), subject(BARNABAS, f"barnabas-{kind}", measure)


def both_and_with_fsync(measure: MeasureBroker) -> tuple[Subject, ...]:
    """The ratio is without fsync, as in Kafka; Barnabas with fsync is an additional subject."""
    return (*both(measure), subject(WITH_FSYNC, "barnabas-fsync", measure))
