"""Time from process start to the first response; with partitions, to the first acknowledged record."""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.model import BARNABAS, KAFKA, Figures, Measure, Metric, Row, Subject, Target
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_PARTITIONS, _PARTITIONS_PER_TOPIC = 2_000, 100
_DEADLINE = 120.0
SECONDS = Metric("seconds", "s", digits=2)

End = Callable[[Broker], None]


def first_answer(key: str) -> Measure:
    """Start with an empty, formatted folder."""

    def measure(session: Session) -> Figures:
        broker = session.new_broker(key)
        broker.prepare()
        try:
            return {"seconds": broker.launch_and_wait()}
        finally:
            broker.stop()

    return measure


def first_record(key: str, end: End) -> Measure:
    """Restart of a broker that has 2,000 partitions with a record each and was stopped by `end`."""

    def measure(session: Session) -> Figures:
        broker = session.new_broker(key).start()
        try:
            topics = fill_partitions(session, broker)
            end(broker)
            begin = time.monotonic()
            broker.launch_and_wait(_DEADLINE)
            write(broker, [(topics[-1], _PARTITIONS_PER_TOPIC - 1)])
            return {"seconds": time.monotonic() - begin}
        finally:
            broker.stop()

    return measure


def fill_partitions(session: Session, broker: Broker) -> list[str]:
    count = session.scaled(_PARTITIONS) // _PARTITIONS_PER_TOPIC
    topics = [session.fresh_topic(broker, _PARTITIONS_PER_TOPIC) for _ in range(count)]
    write(broker, [(topic, index) for topic in topics for index in range(_PARTITIONS_PER_TOPIC)])
    return topics


def write(broker: Broker, partitions: list[tuple[str, int]]) -> None:
    """Write one acknowledged record to each partition."""

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"not delivered: {error}")

    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20}
    )
    for topic, partition in partitions:
        producer.produce(topic, b"x" * 100, partition=partition, on_delivery=delivered)
    if producer.flush(_DEADLINE):
        raise TimeoutError(f"not everything is acknowledged after {_DEADLINE:g} s")


def with_partitions(name: str, title: str, end: End) -> Row:
    return Row(
        name,
        title,
        (Subject(KAFKA, first_record("kafka", end)), Subject(BARNABAS, first_record("barnabas", end))),
        (SECONDS,),
        (Target("seconds", "<=", 1.0),),
        warm_up=False,
    )


ROWS = (
    Row(
        "start",
        "start to first ApiVersions answer",
        (Subject(KAFKA, first_answer("kafka")), Subject(BARNABAS, first_answer("barnabas"))),
        (SECONDS,),
        (Target("seconds", "<=", 0.25), Target("seconds", "<=", 0.5, relative_to=None)),
        warm_up=False,
    ),
    with_partitions(
        "start-partitions-clean",
        "start with 2,000 partitions after a clean stop",
        lambda broker: broker.stop(),
    ),
    with_partitions(
        "start-partitions-killed", "start with 2,000 partitions after kill -9", lambda broker: broker.kill()
    ),
)
