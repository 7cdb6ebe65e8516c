"""Flink, Storm and Flume against a broker: `make stream-processors`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.peers import jvm
from tests.peers.jvm import JARS, JvmProcess
from tests.support.topics import CommittedOffsets, produce, values_to_end

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]

COUNT = 3000
PARTITIONS = 2


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def expected(count: int) -> list[str]:
    return sorted(f"confluent-{number}" for number in range(count))


def newest_checkpoint(folder: Path) -> Path | None:
    complete = sorted(folder.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime_ns)
    return complete[-1].parent if complete else None


def test_flink_copies_exactly_once_though_it_is_killed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The second job restores the newest checkpoint of the first, which was killed while it wrote."""
    jvm.require("flink", "flink-connector-kafka")
    servers = broker.bootstrap_servers
    source, target = (broker.create_topic(name, PARTITIONS) for name in ("flink-source", "flink-target"))
    class_path = jvm.compiled("flink", "FlinkCopy", tmp_path)
    checkpoints = tmp_path / "checkpoints"
    arguments = (servers, source, target, str(checkpoints))

    produce(servers, source, range(COUNT))
    with JvmProcess(class_path, "FlinkCopy", *arguments) as first:
        first.wait_for(lambda: bool(values_to_end(servers, target, PARTITIONS)))
        produce(servers, source, range(COUNT, 2 * COUNT))  # read and written, possibly not committed
        first.wait_for(lambda: newest_checkpoint(checkpoints) is not None)
    restored = newest_checkpoint(checkpoints)
    assert restored is not None
    produce(servers, source, range(2 * COUNT, 3 * COUNT))
    with JvmProcess(class_path, "FlinkCopy", *arguments, str(restored)) as second:
        second.wait_for(lambda: len(values_to_end(servers, target, PARTITIONS)) >= 3 * COUNT)

    assert values_to_end(servers, target, PARTITIONS) == expected(3 * COUNT)


def test_storms_spout_reads_everything_and_resumes_at_its_offsets(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    jvm.require("storm", "storm-kafka-client")
    servers, topic = broker.bootstrap_servers, broker.create_topic("storm", PARTITIONS)
    class_path = jvm.compiled("storm", "StormSpout", tmp_path)
    produce(servers, topic, range(COUNT))

    with closing(CommittedOffsets(servers, "storm-group", topic, PARTITIONS)) as committed:
        with JvmProcess(class_path, "StormSpout", servers, topic, "storm-group") as first:
            first.wait_for(lambda: sum(committed.now()) == COUNT)
        assert sorted(set(printed(first))) == expected(COUNT)
        produce(servers, topic, range(COUNT, COUNT + 100))
        with JvmProcess(class_path, "StormSpout", servers, topic, "storm-group") as second:
            second.wait_for(lambda: sum(committed.now()) == COUNT + 100)
    assert sorted(set(printed(second))) == sorted(set(expected(COUNT + 100)) - set(expected(COUNT)))


def printed(process: JvmProcess) -> list[str]:
    return [line.split()[-1] for line in process.lines if line.startswith("record ")]


FLUME = """
agent.sources = in
agent.channels = between
agent.sinks = out
agent.sources.in.type = org.apache.flume.source.kafka.KafkaSource
agent.sources.in.kafka.bootstrap.servers = {servers}
agent.sources.in.kafka.topics = {source}
agent.sources.in.kafka.consumer.group.id = flume-source
agent.sources.in.kafka.consumer.auto.offset.reset = earliest
agent.sources.in.setTopicHeader = false
agent.sources.in.channels = between
agent.channels.between.type = org.apache.flume.channel.kafka.KafkaChannel
agent.channels.between.kafka.bootstrap.servers = {servers}
agent.channels.between.kafka.topic = {channel}
agent.channels.between.kafka.consumer.group.id = flume-channel
agent.channels.between.kafka.consumer.auto.offset.reset = earliest
agent.sinks.out.type = org.apache.flume.sink.kafka.KafkaSink
agent.sinks.out.kafka.bootstrap.servers = {servers}
agent.sinks.out.kafka.topic = {target}
agent.sinks.out.kafka.producer.acks = all
agent.sinks.out.channel = between
"""


def test_flume_reads_keeps_and_writes_records(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """One agent with its source, its channel and its sink for Kafka; killed in between, it loses nothing."""
    jvm.require("flume", "flume-kafka-channel")
    names = ("flume-source", "flume-channel", "flume-target")
    source, channel, target = (broker.create_topic(name, PARTITIONS) for name in names)
    servers = broker.bootstrap_servers
    agent = tmp_path / "agent.properties"
    agent.write_text(FLUME.format(servers=servers, source=source, channel=channel, target=target))
    command = (f"{JARS['flume']}/*", "org.apache.flume.node.Application", "-n", "agent", "-f", str(agent))

    produce(servers, source, range(COUNT))
    with JvmProcess(*command) as first:
        first.wait_for(lambda: bool(values_to_end(servers, target, PARTITIONS)))
    produce(servers, source, range(COUNT, COUNT + 100))
    with JvmProcess(*command) as second:
        second.wait_for(lambda: len(set(values_to_end(servers, target, PARTITIONS))) == COUNT + 100)

    assert sorted(set(values_to_end(servers, target, PARTITIONS))) == expected(COUNT + 100)
