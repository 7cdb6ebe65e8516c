"""What the rows about throughput share: a rate to raise and CPU seconds to save."""

from collections.abc import Callable

from benchmarks.model import BARNABAS, KAFKA, Figures, Metric, Subject, Target
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

RATE = Metric("rate", "records/s")
CPU = Metric("cpu", "s CPU", digits=2)
CPU_TARGET = Target("cpu", "<=", 0.5)
# What the broker coordinates, or does in the background, may cost a little more.
COORDINATION_CPU_TARGET = Target("cpu", "<=", 0.7)
WITH_FSYNC = "Barnabas, fsync=auto"

MeasureBroker = Callable[[Session, Broker], Figures]


def subject(name: str, broker: str, measure: MeasureBroker) -> Subject:
    return Subject(name, lambda session: measure(session, session.broker(broker)))


def both(measure: MeasureBroker) -> tuple[Subject, ...]:
    """Kafka and Barnabas, measured in the same way."""
    return subject(KAFKA, "kafka", measure), subject(BARNABAS, "barnabas", measure)


def both_of(kind: str, measure: MeasureBroker) -> tuple[Subject, ...]:
    """As `both`, on brokers with settings of their own."""
    return subject(KAFKA, f"kafka-{kind}", measure), subject(BARNABAS, f"barnabas-{kind}", measure)


def both_and_with_fsync(measure: MeasureBroker) -> tuple[Subject, ...]:
    """The ratio is without fsync, as Kafka does it; our figure with fsync stands beside it."""
    return (*both(measure), subject(WITH_FSYNC, "barnabas-fsync", measure))
