"""Small requests over many connections: cost per request rather than per byte."""

from benchmarks.loads import client, request_load, with_cpu
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import CPU, CPU_TARGET, MeasureBroker, both
from benchmarks.rows.latency import P50, P99
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_CONNECTIONS, _PARTITIONS, _REQUESTS = 200, 6, 100_000
_SECONDS = 10


def requests_over(connections: int, *, at_once: bool = False) -> MeasureBroker:
    """Produce to one partition with each request, or to all of them."""

    def measure(session: Session, broker: Broker) -> Figures:
        topic = session.fresh_topic(broker, _PARTITIONS)
        figures = with_cpu(
            broker,
            lambda: request_load(
                broker,
                "produce",
                topic,
                partitions=_PARTITIONS,
                connections=connections,
                requests=session.scaled(_REQUESTS),
                at_once=at_once,
            ),
        )
        session.delete_topic(broker, topic)
        return figures

    return measure


def awaited_records(session: Session, broker: Broker) -> Figures:
    """Records for which a consumer of librdkafka waits, at a fixed rate: CPU includes its fetches."""
    topic = session.fresh_topic(broker, 1)
    seconds = max(3, session.scaled(_SECONDS))
    before = broker.cpu_seconds()
    figures = client(
        "end_to_end", "--bootstrap", broker.bootstrap, "--topic", topic, "--rate", 5000, "--seconds", seconds
    )
    return {**figures, "cpu": broker.cpu_seconds() - before}


ROWS = (
    Row(
        "produce-connections",
        "produce 100 B requests over 200 connections, acks=1",
        both(requests_over(_CONNECTIONS)),
        (Metric("rate", "requests/s"), CPU),
        (Target("rate", ">=", 1.2), CPU_TARGET),
    ),
    Row(
        "produce-several-partitions",
        "produce 100 B to each of 6 partitions per request, 20 connections, acks=1",
        both(requests_over(20, at_once=True)),
        (Metric("rate", "requests/s"), CPU),
        (Target("rate", ">=", 1.0), CPU_TARGET),
    ),
    Row(
        "awaited-records",
        "5,000 records/s, one by one, for a consumer that waits",
        both(awaited_records),
        (CPU, P50, P99),
        (CPU_TARGET,),
    ),
)
