"""Consumer groups: how fast they commit, and how soon fifty members have shared out their partitions."""

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.brokers import Broker
from benchmarks.loads import client, request_load, with_cpu
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.rows.common import CPU, MeasureBroker, both, subject
from benchmarks.session import Session

_GROUPS, _CONNECTIONS, _COMMITS, _MEMBERS = 100, 100, 50_000, 50
_COORDINATOR_SECONDS = 60
FSYNC = f"{BARNABAS} (fsync)"


def one_group(session: Session, broker: Broker) -> Figures:
    return _commits(session, broker, 1)


def many_groups(session: Session, broker: Broker) -> Figures:
    return _commits(session, broker, _GROUPS)


def _commits(session: Session, broker: Broker, groups: int) -> Figures:
    topic = session.fresh_topic(broker, 1)
    _wait_for_coordinators(broker, topic, groups)
    return with_cpu(
        broker,
        lambda: request_load(
            broker,
            "commit",
            topic,
            partitions=1,
            connections=_CONNECTIONS,
            requests=session.scaled(_COMMITS),
            groups=groups,
        ),
    )


def settling(session: Session, broker: Broker) -> Figures:
    topic = session.fresh_topic(broker, _MEMBERS)
    group = f"settling-{topic}"
    _wait_for_coordinators(broker, topic, 1)
    return client("settling", "--port", broker.port, "--group", group, "--members", _MEMBERS)


def _wait_for_coordinators(broker: Broker, topic: str, groups: int) -> None:
    """The first commit creates the internal topic, and Kafka's coordinators take a while to load it."""
    deadline = time.monotonic() + _COORDINATOR_SECONDS
    for number in range(groups):
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": f"group-{number}", "log_level": 0}
        consumer = Consumer(settings)
        while not _commit(consumer, topic):
            if time.monotonic() > deadline:
                raise RuntimeError("the broker does not coordinate groups")
        consumer.close()


def _commit(consumer: Consumer, topic: str) -> bool:
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    except KafkaException:
        return False
    return True


def _all_three(measure: MeasureBroker) -> tuple[Subject, ...]:
    """With and without fsync: Kafka promises less than we do by default."""
    return (*both(measure), subject(FSYNC, "barnabas-fsync", measure))


_COMMIT_METRICS = (Metric("rate", "commits/s"), CPU)
_COMMIT_TARGETS = (Target("rate", ">=", 1.0), Target("cpu", "<=", 0.7))

ROWS = (
    Row("commit-one-group", "commits of one group", _all_three(one_group), _COMMIT_METRICS, _COMMIT_TARGETS),
    Row(
        "commit-100-groups",
        "commits of 100 groups",
        _all_three(many_groups),
        _COMMIT_METRICS,
        _COMMIT_TARGETS,
    ),
    Row(
        "group-settles",
        "a group of 50 members settles",
        _all_three(settling),
        (Metric("ms", "ms"),),
        (Target("ms", "<=", 1.0),),
    ),
)
