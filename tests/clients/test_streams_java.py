"""A real Kafka Streams program with the streams protocol (KIP-1071) and the classic one.

It has no cache, so every increment of a count is written out: exactly once means that each word's counts are
1, 2, 3 and so on to the end, without a gap and without a repetition.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.connection import BrokerConnection
from barnabas.common.errors import KafkaError
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.protocol.messages.streams import DescribedGroup, StreamsGroupDescribeRequest, TaskIds
from barnabas.testing import EmbeddedBroker, EmbeddedCluster
from tests.support.brokers import BrokerProcess
from tests.support.kafka.jars import kafka_libs
from tests.support.kafka.tools import java_command, run_tool
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).parent / "java" / "WordCount.java"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
TASKS = 5_000
LONG = 600.0
TIMEOUT = 90.0  # machines that run all tests at once are slow

# Failures are noticed within seconds, not within the minute that an operator would grant.
QUICK = {
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "4000",
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "200",
    "group.initial.rebalance.delay.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program is compiled once, not by every instance."""
    folder = tmp_path_factory.mktemp("classes")
    compile_it = ["javac", "-cp", f"{kafka_libs()}/*", "-d", str(folder), str(PROGRAM)]
    subprocess.run(compile_it, check=True, timeout=TIMEOUT)
    return folder


class Application:
    """One instance of the program."""

    def __init__(
        self, classes: Path, bootstrap: str, name: str, topics: tuple[str, str], *settings: str
    ) -> None:
        self._output = classes / f"{name}-{time.monotonic_ns()}.out"
        state = f"state.dir={self._output.with_suffix('.state')}"
        command = java_command(
            "WordCount", bootstrap, name, *topics, state, "statestore.cache.max.bytes=0", *settings
        )
        command[command.index("-cp") + 1] += f":{classes}"
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def said(self) -> str:
        return self._output.read_text()

    def knows(self, *instances: str) -> bool:
        """True if it knows the endpoints and stores of others."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"?")
        self._process.stdin.flush()
        return all(instance in self.said for instance in instances)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(TIMEOUT) == 0, self.said
        assert "closed" in self.said

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Words:
    """The input, and the output of the application."""

    def __init__(self, bootstrap: str, topics: tuple[str, str]) -> None:
        self._source, self._output = topics
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(self._output, 0, 0)])
        self.sent: dict[str, int] = defaultdict(int)
        self.counts: dict[str, list[int]] = defaultdict(list)

    def send(self, lines: int) -> None:
        for number in range(lines):
            line = f"every line {number % 7}"
            self._producer.produce(self._source, line)
            for word in line.split():
                self.sent[word] += 1
        assert self._producer.flush(TIMEOUT) == 0

    def wait_until_counted(self) -> None:
        until(
            self._all_counted,
            lambda: f"sent {dict(self.sent)}, counted {self._last()}",
            TIMEOUT,
            meanwhile=self._consume,
            every=0,
        )

    def _consume(self) -> None:
        for message in self._consumer.consume(500, 0.2):
            if message.error() is None:
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                self.counts[key.decode()].append(int(value))

    def _last(self) -> dict[str, int]:
        return {word: max(counts) for word, counts in self.counts.items()}

    def _all_counted(self) -> bool:
        return self._last() == self.sent

    def check_exactly_once(self) -> None:
        assert {word: list(range(1, count + 1)) for word, count in self.sent.items()} == self.counts

    def close(self) -> None:
        self._consumer.close()


def describe(bootstrap: str, group: str) -> DescribedGroup:
    async def ask() -> DescribedGroup:
        host, _, port = bootstrap.rpartition(":")
        connection = await BrokerConnection.connect(host, int(port), "test")
        try:
            answer = await connection.send(StreamsGroupDescribeRequest([group]), 0)
        finally:
            connection.close()
        described: DescribedGroup = answer.groups[0]
        return described

    return asyncio.run(ask())


def standbys(bootstrap: str, group: str) -> list[TaskIds]:
    return [ids for member in describe(bootstrap, group).members for ids in member.assignment.standby_tasks]


def is_shared(bootstrap: str, group: str, *shares: int) -> Callable[[], bool]:
    """Is the group stable, with so many active tasks for each member?"""

    def look() -> bool:
        try:
            described = describe(bootstrap, group)
        except (KafkaError, OSError):
            return False
        active = sorted(
            sum(len(ids.partitions) for ids in member.assignment.active_tasks) for member in described.members
        )
        return described.group_state == "Stable" and active == sorted(shares)

    return look


def test_counts_are_exact_when_instances_and_the_broker_are_killed(tmp_path: Path, classes: Path) -> None:
    """With standbys: the survivor has the state of the tasks it takes over."""
    wanted_settings = {**QUICK, "group.streams.num.standby.replicas": "1"}
    settings = (f"{name}={value}" for name, value in wanted_settings.items())
    with BrokerProcess(tmp_path / "broker", *settings) as broker:
        bootstrap = broker.bootstrap_servers
        topics = ("lines", "counted")
        wanted = [NewTopic("lines", 3, 1), NewTopic("counted", 1, 1)]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics(wanted).values():
            future.result()
        options = (
            "group.protocol=streams",
            "processing.guarantee=exactly_once_v2",
            "producer.transaction.timeout.ms=3000",
        )
        words = Words(bootstrap, topics)
        words.send(100)
        with (
            Application(classes, bootstrap, "app", topics, *options, "application.server=one:1") as first,
            Application(classes, bootstrap, "app", topics, *options, "application.server=two:2") as second,
        ):
            until(is_shared(bootstrap, "app", 3, 3), "a fair share for both", TIMEOUT)
            assert sum(len(ids.partitions) for ids in standbys(bootstrap, "app")) == 3
            hosts = [
                f"HostInfo{{host='{name}', port={port}}} reads 3" for name, port in (("one", 1), ("two", 2))
            ]
            until(lambda: first.knows(*hosts), f"both endpoints: {hosts}", TIMEOUT)
            words.send(100)
            second.kill()
            words.send(100)
            until(is_shared(bootstrap, "app", 6), "the survivor to take over", TIMEOUT)
            broker.kill()
            broker.start()
            words.send(100)
            words.wait_until_counted()
            words.check_exactly_once()
            until(is_shared(bootstrap, "app", 6), "the survivor in the restarted broker", TIMEOUT)
            first.close()
            assert describe(bootstrap, "app").group_state == "Empty"
        words.close()


def test_an_application_moves_from_the_classic_protocol_to_the_new_one(classes: Path) -> None:
    """It restarts with the other setting, and continues with its offsets and state."""
    with EmbeddedBroker(settings=QUICK) as broker:
        bootstrap = broker.bootstrap_servers
        topics = (broker.create_topic(partitions=2), broker.create_topic())
        on = ("--bootstrap-server", bootstrap)
        words = Words(bootstrap, topics)
        for protocol in ("classic", "streams"):
            words.send(50)
            with Application(
                classes, bootstrap, "mover", topics, f"group.protocol={protocol}"
            ) as application:
                words.wait_until_counted()
                if protocol == "streams":
                    shown = run_tool(
                        STREAMS_GROUPS, *on, "--describe", "--group", "mover", "--members", "--verbose"
                    )
                    assert " ACTIVE: 0:[0,1]; 1:[0,1];" in shown.check().stdout
                application.close()
        words.check_exactly_once()
        assert describe(bootstrap, "mover").group_state == "Empty"
        words.close()


@pytest.mark.slow
def test_counts_are_exact_when_the_coordinator_of_the_group_dies(classes: Path) -> None:
    """On three brokers: its successor continues from the log; topics are created by another broker."""
    require_zookeeper()
    settings = {
        **QUICK,
        "zookeeper.session.timeout.ms": "3000",
        "min.insync.replicas": "2",
    }
    with EmbeddedCluster(brokers=3, settings=settings) as cluster:
        bootstrap = cluster.bootstrap_servers
        topics = (cluster.create_topic(partitions=3), cluster.create_topic())
        words = Words(bootstrap, topics)
        words.send(100)
        options = ("group.protocol=streams", "processing.guarantee=exactly_once_v2")
        with (
            Application(classes, bootstrap, "moved", topics, *options) as first,
            Application(classes, bootstrap, "moved", topics, *options) as second,
        ):

            def is_everybody_at_work() -> bool:
                for application in (first, second):
                    assert "state ERROR" not in application.said, application.said
                coordinator = cluster.brokers.get(coordinator_of(cluster, "moved"))
                return (
                    coordinator in cluster.running
                    and is_shared(coordinator.bootstrap_servers, "moved", 3, 3)()
                )

            until(is_everybody_at_work, "a fair share for both", TIMEOUT)
            words.send(100)
            cluster.kill(coordinator_of(cluster, "moved"))
            words.send(100)
            words.wait_until_counted()
            until(is_everybody_at_work, "the same shares at the new coordinator", TIMEOUT)
            words.check_exactly_once()
            first.close()
            second.close()
        words.close()


def coordinator_of(cluster: EmbeddedCluster, group: str) -> int:
    state = cluster.running[0].broker.image.topics.get(CONSUMER_OFFSETS)
    partition = 0 if state is None else partition_for(group, len(state.partitions))
    return cluster.leader_of(CONSUMER_OFFSETS, partition)


@pytest.mark.extended
@pytest.mark.timeout(3 * LONG)
def test_an_application_of_5000_tasks_rebalances_with_the_classic_protocol(classes: Path) -> None:
    """Half of them read the input, half count; each member sends its tasks to the others."""
    topics = ("lines", "words")
    with EmbeddedBroker({**QUICK, "offsets.topic.num.partitions": "1"}) as broker:
        broker.create_topic("lines", partitions=TASKS // 2)
        broker.create_topic("words")
        bootstrap = broker.bootstrap_servers
        settings = ("group.protocol=classic", "session.timeout.ms=45000", "max.poll.interval.ms=600000")
        with Application(classes, bootstrap, "large", topics, *settings) as first:
            until(lambda: "state RUNNING" in first.said, "the first instance", LONG)
            with Application(classes, bootstrap, "large", topics, *settings) as second:
                until(lambda: "state RUNNING" in second.said, "the second instance", LONG)
                until(lambda: first.said.count("state RUNNING") > 1, "the first instance again", LONG)
            assert "ERROR" not in first.said
