"""What the rows about throughput share: a rate to raise and CPU seconds to save."""

from collections.abc import Callable

from benchmarks.brokers import Broker
from benchmarks.model import BARNABAS, KAFKA, Figures, Metric, Subject, Target
from benchmarks.session import Session

RATE = Metric("rate", "records/s")
CPU = Metric("cpu", "s CPU", digits=2)
CPU_TARGET = Target("cpu", "<=", 0.5)

MeasureBroker = Callable[[Session, Broker], Figures]


def subject(name: str, broker: str, measure: MeasureBroker) -> Subject:
    return Subject(name, lambda session: measure(session, session.broker(broker)))


def both(measure: MeasureBroker) -> tuple[Subject, ...]:
    """Kafka and Barnabas, measured in the same way."""
    return subject(KAFKA, "kafka", measure), subject(BARNABAS, "barnabas", measure)
