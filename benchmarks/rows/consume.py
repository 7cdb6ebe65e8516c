"""Consuming a topic from its beginning with kafka-consumer-perf-test."""

import itertools

from benchmarks.loads import consumer_perf_test, producer_perf_test, with_cpu
from benchmarks.model import Figures, Row, Target
from benchmarks.rows.common import CPU, CPU_TARGET, RATE, both
from benchmarks.rows.produce import BATCHES_OF_128_KB
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_RECORDS, _PARTITIONS = 5_000_000, 6
_groups = (f"bench-group-{number}" for number in itertools.count())


def write_what_is_read(session: Session) -> None:
    for key in ("kafka", "barnabas"):
        broker = session.broker(key)
        topic = session.fresh_topic(broker, _PARTITIONS)
        properties = {"acks": "1", **BATCHES_OF_128_KB}
        producer_perf_test(broker, topic, session.scaled(_RECORDS), 100, properties)
        session.keep(broker, "consume", topic)


def consume(session: Session, broker: Broker) -> Figures:
    topic = session.kept(broker, "consume")
    records = session.scaled(_RECORDS)
    return with_cpu(broker, lambda: consumer_perf_test(broker, topic, records, next(_groups)))


ROWS = (
    Row(
        "consume",
        "consume 100 B, 6 partitions, from the beginning",
        both(consume),
        (RATE, CPU),
        (Target("rate", ">=", 0.95), CPU_TARGET),
        prepare=write_what_is_read,
    ),
)
