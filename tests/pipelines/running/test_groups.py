"""A consumer group per flow, as seen by Kafka's tool and other clients."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from barnabas.common.clock import ManualClock
from barnabas.common.types import TopicPartition as Place
from barnabas.pipelines.definitions.files import BOOTSTRAP, read_pipeline
from barnabas.pipelines.running.broker_checks import StreamTopics
from barnabas.pipelines.running.metrics import pipeline_registry
from barnabas.pipelines.running.reporting import FlowGroups
from barnabas.pipelines.running.runner import Runner
from barnabas.spark.source.settings import SourceSettings
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool
from tests.support.spark.reading import produce
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(300)

TIMEOUT = 120
SPEC = """
name: {name}
storage: file://{folder}/storage
configuration: {{shop.topic: {topic}}}
libraries:
  - glob: {{include: transformations/**}}
"""
SETTINGS = """
trigger: 200 milliseconds
flows:
  slow: {trigger: 1000 hours}
  taken: {group: somebody's}
"""
DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from barnabas.pipelines.connection import broker_options
spark = SparkSession.active()

def topic(**options):
    reader = spark.readStream.format("barnabas").options(**broker_options(spark)).options(**options)
    return reader.option("subscribe", spark.conf.get("shop.topic")).option("startingOffsets", "earliest").load()

@dp.temporary_view
def orders():
    return topic()

def reads_the_view(name):
    dp.create_streaming_table(name)
    dp.append_flow(target=name, name=name)(lambda: spark.readStream.table("orders"))

for name in ("fast", "slow", "taken"):
    reads_the_view(name)

@dp.table
def named():
    return topic(**{"kafka.group.id": "of the author"})
"""


@pytest.fixture
def runner(tmp_path: Path, spark: SparkSession, broker: EmbeddedBroker) -> Iterator[Callable[[], Runner]]:
    """Makes runners of one pipeline over one topic, one after another."""
    topic = broker.create_topic(partitions=2)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "orders.py").write_text(DEFINITIONS)
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(name="shop", folder=tmp_path, topic=topic))
    (tmp_path / "barnabas.yml").write_text(SETTINGS)
    made: list[Runner] = []

    def make() -> Runner:
        files = read_pipeline(tmp_path, {BOOTSTRAP: broker.bootstrap_servers})
        made.append(Runner(files, spark))
        made[-1].prepare()
        return made[-1]

    yield make
    for each in made:
        each.close()


def topic_of(runner: Runner) -> str:
    return runner.files.configuration["shop.topic"]


def committed(servers: str, group: str, topic: str) -> list[int]:
    """Committed offsets by partition, read by another client."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, index) for index in range(2)])
    admin = AdminClient({"bootstrap.servers": servers})
    found = admin.list_consumer_group_offsets([wanted])[group].result(TIMEOUT)
    return [place.offset for place in found.topic_partitions]


def joined(servers: str, group: str, topic: str) -> Consumer:
    """An active group member, which prevents commits of others."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "latest"})
    consumer.subscribe([topic])
    until(consumer.assignment, "the member did not join", TIMEOUT, meanwhile=lambda: consumer.poll(0.1))
    return consumer


@requires_java
def test_each_flow_over_one_topic_has_a_group_with_its_own_lag(
    runner: Callable[[], Runner],
    broker: EmbeddedBroker,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The broker shares a busy machine with Spark: a commit that is given up is repeated only after a pause.
    monkeypatch.setattr("barnabas.pipelines.running.reporting.TIMEOUT", TIMEOUT)
    servers = broker.bootstrap_servers
    first = runner()
    topic = topic_of(first)
    member = joined(servers, "somebody's", topic)
    for partition in range(2):
        produce(servers, topic, [b"order"] * 10, partition=partition)
    first.start()
    rows = dict(first.flows)
    until(
        lambda: all(flow.rows == 20 for flow in rows.values()),
        "the first batch of all flows",
        TIMEOUT,
        meanwhile=first.look,
    )
    produce(servers, topic, [b"order"] * 5, partition=1)
    until(
        lambda: rows["fast"].rows == rows["taken"].rows == 25,
        "the second of the fast ones",
        TIMEOUT,
        meanwhile=first.look,
    )
    until(
        lambda: rows["slow"].lag == 5 and rows["fast"].lag == 0,
        "what lag they have",
        TIMEOUT,
        meanwhile=first.look,
    )

    assert {name: flow.groups for name, flow in rows.items()} == {
        "fast": ["shop.fast"],
        "slow": ["shop.slow"],
        "taken": ["somebody's"],
        "named": ["of the author"],
    }
    assert committed(servers, "shop.fast", topic) == [10, 15]
    assert committed(servers, "shop.slow", topic) == [10, 10]
    assert committed(servers, "somebody's", topic) == [-1001, -1001]  # rejected, and the flow continued
    assert "the progress of group somebody's could not be committed" in caplog.text
    values = pipeline_registry("shop", lambda: first.flows.values()).snapshot()
    for name, lag in described(servers, topic, "shop.fast", "shop.slow").items():
        assert values[f"barnabas_pipeline_lag_records{{pipeline=shop,flow={name}}}"] == lag
        assert lag == {"fast": 0, "slow": 5}[name]

    member.close()
    first.close()
    assert committed(servers, "shop.slow", topic) == [10, 10]
    # As if the last run had been killed before reporting: `fast` has nothing to read, and still reports.
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_consumer_groups(["shop.fast"])["shop.fast"].result(TIMEOUT)
    second = runner()
    second.run_once()
    assert {name: flow.lag for name, flow in second.flows.items()} == dict.fromkeys(rows, 0)
    for group in ("shop.fast", "shop.slow", "somebody's"):
        assert committed(servers, group, topic) == [10, 15]
    assert committed(servers, "of the author", topic) != [-1001, -1001]  # by the source itself, as everywhere
    listed = admin.list_consumer_groups().result(TIMEOUT).valid
    assert f"spark-barnabas-{topic}" not in {group.group_id for group in listed}


class TwoClusters:
    """The flow `there` has a topic with 5 records in each of 2 partitions; the broker of the flow `away` is silent."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.servers, self.topic = broker.bootstrap_servers, broker.create_topic(partitions=2)
        for partition in range(2):
            produce(self.servers, self.topic, [b"order"] * 5, partition=partition)
        self.clock = ManualClock()
        self.silent = socket.create_server(("127.0.0.1", 0))  # accepts connections and is silent
        flows = {"there": self.servers, "away": f"127.0.0.1:{self.silent.getsockname()[1]}"}
        self.groups = FlowGroups(
            {name: (f"{self.topic}.{name}", [self._source(servers)]) for name, servers in flows.items()},
            self.clock.monotonic,
        )

    def _source(self, servers: str) -> StreamTopics:
        options = {"kafka.bootstrap.servers": servers, "subscribe": self.topic}
        return StreamTopics(SourceSettings.parse(options, streaming=True), True)

    def reached(self, offset: int) -> dict[Place, int]:
        return {Place(self.topic, index): offset for index in range(2)}

    def commit(self, flow: str, offset: int, *, last: bool = False) -> list[int]:
        """Committed offsets of the flow `there` afterwards."""
        self.groups.commit(flow, self.reached(offset), last=last)
        return committed(self.servers, f"{self.topic}.there", self.topic)


@pytest.fixture
def clusters(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoClusters]:
    monkeypatch.setattr("barnabas.pipelines.running.reporting.TIMEOUT", 0.5)
    clusters = TwoClusters(broker)
    yield clusters
    clusters.groups.close()
    clusters.silent.close()


def test_unresponsive_brokers_are_asked_again_after_ten_seconds(clusters: TwoClusters) -> None:
    assert clusters.groups.lag("away", clusters.reached(2)) is None
    assert clusters.groups.lag("there", clusters.reached(2)) is None
    clusters.clock.advance(10_000)
    assert clusters.groups.lag("there", clusters.reached(2)) == 6
    assert clusters.commit("there", 2) == [2, 2]


def test_the_last_commit_of_a_run_is_tried_though_brokers_did_not_answer_a_moment_ago(
    clusters: TwoClusters,
) -> None:
    assert clusters.commit("there", 1) == [1, 1]
    assert clusters.commit("away", 1) == [1, 1]
    assert clusters.commit("there", 2) == [1, 1]
    assert clusters.commit("away", 2, last=True) == [1, 1]
    assert clusters.commit("there", 2, last=True) == [2, 2]


def test_last_commits_have_a_time_limit(
    clusters: TwoClusters, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(clusters.groups, "_clock", time.monotonic)
    monkeypatch.setattr("barnabas.pipelines.running.reporting.LAST_TIMEOUT", 0.6)
    for offset in range(1, 6):
        clusters.groups.commit("away", clusters.reached(offset), last=True)
    assert 1 <= len(caplog.records) <= 2


def described(servers: str, topic: str, *groups: str) -> dict[str, int]:
    """The lag of each group as `kafka-consumer-groups` shows it, by flow."""
    arguments = [text for group in groups for text in ("--group", group)]
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    output = run_tool(tool, "--bootstrap-server", servers, "--describe", *arguments).check().stdout
    lag: dict[str, Any] = {group.removeprefix("shop."): 0 for group in groups}
    for line in output.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == topic:
            lag[fields[0].removeprefix("shop.")] += int(fields[5])
    return lag
