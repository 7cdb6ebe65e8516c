"""Latencies at a fixed rate, in microseconds, with librdkafka."""

from benchmarks.loads import client
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import both
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

P50, P99 = Metric("p50_us", "µs p50"), Metric("p99_us", "µs p99")
_SECONDS = 6


def seconds(session: Session) -> int:
    """Duration of the measurement: even a quick run needs some thousand samples for a p99."""
    return max(3, session.scaled(_SECONDS))


def end_to_end(session: Session, broker: Broker) -> Figures:
    topic = session.fresh_topic(broker, 1)
    options = ("--rate", 1000, "--seconds", seconds(session))
    return client("end_to_end", "--bootstrap", broker.bootstrap, "--topic", topic, *options)


def produce(session: Session, broker: Broker) -> Figures:
    return produce_for(session, broker, seconds(session))


def produce_for(session: Session, broker: Broker, seconds: float) -> Figures:
    topic = session.fresh_topic(broker, 1)
    options = ("--rate", 5000, "--seconds", seconds)
    return client("produce_latency", "--bootstrap", broker.bootstrap, "--topic", topic, *options)


ROWS = (
    Row(
        "latency-end-to-end",
        "end-to-end latency at 1,000/s",
        both(end_to_end),
        (P50, P99),
        (Target("p50_us", "<=", 0.7), Target("p99_us", "<=", 0.7)),
    ),
    Row(
        "latency-produce",
        "produce latency at 5,000/s",
        both(produce),
        (P50, P99),
        (Target("p99_us", "<=", 0.7),),
    ),
)
