"""Small requests over many connections: cost per request rather than per byte."""

from benchmarks.loads import request_load, with_cpu
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import CPU, CPU_TARGET, both
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_CONNECTIONS, _PARTITIONS, _REQUESTS = 200, 6, 100_000


def many_connections(session: Session, broker: Broker) -> Figures:
    topic = session.fresh_topic(broker, _PARTITIONS)
    figures = with_cpu(
        broker,
        lambda: request_load(
            broker,
            "produce",
            topic,
            partitions=_PARTITIONS,
            connections=_CONNECTIONS,
            requests=session.scaled(_REQUESTS),
        ),
    )
    session.delete_topic(broker, topic)
    return figures


ROWS = (
    Row(
        "produce-connections",
        "produce 100 B requests over 200 connections, acks=1",
        both(many_connections),
        (Metric("rate", "requests/s"), CPU),
        (Target("rate", ">=", 1.2), CPU_TARGET),
    ),
)
