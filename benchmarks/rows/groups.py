"""Classic groups: commit rate, and time until fifty members have their assignments."""

import socket
import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks import wire
from benchmarks.loads import client, request_load, with_cpu
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import COORDINATION_CPU_TARGET, CPU, MeasureBroker, both_and_with_fsync
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_GROUPS, _CONNECTIONS, _COMMITS = 100, 100, 20_000
_MEMBERS, _SETTLING_GROUPS = 50, 10
_COORDINATOR_SECONDS, _TRY_EVERY_SECONDS = 60, 0.02


def commits_of(groups: int) -> MeasureBroker:
    def measure(session: Session, broker: Broker) -> Figures:
        topic = session.fresh_topic(broker, 1)
        wait_for_coordinators(broker.port, topic, groups)
        requests = session.scaled(_COMMITS)
        return with_cpu(broker, lambda: _commit(broker, topic, groups, requests))

    return measure


def _commit(broker: Broker, topic: str, groups: int, requests: int) -> float:
    return request_load(
        broker, "commit", topic, partitions=1, connections=_CONNECTIONS, requests=requests, groups=groups
    )


def settling(session: Session, broker: Broker) -> Figures:
    topic = session.fresh_topic(broker, _MEMBERS)
    wait_for_coordinators(broker.port, topic, 1)
    groups = session.scaled(_SETTLING_GROUPS)
    before = broker.cpu_seconds()
    options = ("--group", f"settling-{topic}", "--topic", topic, "--members", _MEMBERS, "--groups", groups)
    figures = client("settling", "--port", broker.port, *options)
    used = broker.cpu_seconds() - before
    session.delete_topic(broker, topic)
    return {"ms": figures["ms"], "cpu": used / groups * 1000}


def wait_for_coordinators(port: int, topic: str, groups: int) -> None:
    """Create the internal topic with a first commit; Kafka's coordinators take a while to load it."""
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "group-0", "log_level": 0})
    _wait_until(partial(_takes_commit, consumer, topic))
    consumer.close()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for number in range(groups):
            frame = wire.commit_frame(f"group-{number}", topic, 0, 0)
            _wait_until(partial(_answers_commit, connection, frame, topic))


def _takes_commit(consumer: Consumer, topic: str) -> bool:
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    except KafkaException:
        return False
    return True


def _answers_commit(connection: socket.socket, frame: bytes, topic: str) -> bool:
    connection.sendall(frame)
    return wire.commit_error(topic, connection.recv(4096)) == 0


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _COORDINATOR_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the broker does not coordinate groups")
        time.sleep(_TRY_EVERY_SECONDS)


def _commit_row(name: str, title: str, groups: int) -> Row:
    return Row(
        name,
        title,
        both_and_with_fsync(commits_of(groups)),
        (Metric("rate", "commits/s"), CPU),
        (Target("rate", ">=", 1.0), COORDINATION_CPU_TARGET),
    )


ROWS = (
    _commit_row("commit-one-group", "commits of one group", 1),
    _commit_row("commit-100-groups", "commits of 100 groups", _GROUPS),
    Row(
        "group-settles",
        "a group of 50 members settles",
        both_and_with_fsync(settling),
        (Metric("ms", "ms"), Metric("cpu", "ms CPU")),
        (Target("ms", "<=", 1.0), COORDINATION_CPU_TARGET),
    ),
)
