"""Targets that assign their own offsets: Apache Kafka, and merged topics. librdkafka writes, reads and commits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from barnabas.client.admin import create_topic
from barnabas.client.groups import committed_offsets
from barnabas.client.mirrors.control import failover as fail_over
from barnabas.client.mirrors.control import mirrors_of, pause, resume
from barnabas.client.status import read_statuses
from barnabas.protocol.api import ApiKey
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka
from tests.support.mirrors.process import MirrorProcess, ask, ends, wait_for
from tests.support.proxies import FrameProxy

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def produce(
    bootstrap: str, topic: str, values: list[str], codec: str = "none", *, partition: int = 0
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5})
    for value in values:
        producer.produce(
            topic, value.encode(), value.encode(), partition=partition, headers=[("h", value.encode())]
        )
    assert producer.flush(60) == 0


def transact(bootstrap: str, topic: str, values: list[str], *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid4().hex})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    producer.flush(60)
    producer.commit_transaction(60) if commit else producer.abort_transaction(60)


class Reader:
    """Of the first partition; others are read and passed over."""

    def __init__(self, bootstrap: str, topic: str, group: str | None = None) -> None:
        self.topic = topic
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group or uuid4().hex,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 200,
            }
        )
        self.consumer.subscribe([topic])
        self.seen: list[tuple[int, str, dict[str, Any]]] = []

    def read(self, count: int) -> list[str]:
        """The next values; all of them, or an error after the deadline."""
        before = len(self.seen)

        def enough() -> bool:
            for message in self.consumer.consume(count - (len(self.seen) - before), 0.2):
                if message.error() is not None or message.partition() != 0:
                    continue
                headers = dict(message.headers() or [])
                self.seen.append((message.offset() or 0, (message.value() or b"").decode(), headers))
            return len(self.seen) - before >= count

        wait_for(enough)
        return [value for _, value, _ in self.seen[before:]]

    def commit(self) -> None:
        last = self.seen[-1][0]
        self.consumer.commit(offsets=[Place(self.topic, 0, last + 1)], asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


def check_produced_mirror(source: str, target: str, name: str, *arguments: str) -> None:
    """Codecs, committed and aborted transactions, kill -9, a group that moves without loss or duplicate."""
    ask(source, lambda client: create_topic(client, name, partitions=1))
    source_servers: list[str] = []
    mirror = MirrorProcess(source, target, "--topics", name, *arguments)
    with mirror:
        for codec in CODECS:
            values = [f"{codec}-{n}" for n in range(200)]
            produce(source, name, values, codec)
            source_servers += values
        mirror.kill()
        transact(source, name, ["aborted"] * 50, commit=False)
        committed = [f"t-{n}" for n in range(100)]
        transact(source, name, committed, commit=True)
        source_servers += committed
        reader = Reader(source, name, f"group-{name}")
        assert reader.read(700) == source_servers[:700]
        reader.commit()
        reader.close()
        mirror.start()
        found = Reader(target, name)
        assert found.read(len(source_servers)) == source_servers
        assert found.seen[5][2]["barnabas.mirror"].decode().endswith(f"/{name}/0/5")
        assert found.seen[5][2]["h"] == b"none-5"
        mirror.kill()
        produce(source, name, ["last"])
        mirror.start()
        assert found.read(1) == ["last"]
        found.close()
        group = f"group-{name}"
        wait_for(lambda: ask(target, lambda client: committed_offsets(client, group)))
        moved = Reader(target, name, group)
        assert moved.read(len(source_servers) - 700 + 1) == [*source_servers[700:], "last"]
        moved.close()
        assert mirror.stop() == 0


def test_merged_topic_has_every_record_once_and_groups_continue_by_checkpoints(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name = new_name()
    with EmbeddedBroker() as second:
        for number, each in enumerate((source, second)):
            each.create_topic(name, partitions=1)
            produce(each.bootstrap_servers, name, [f"{number}-{n}" for n in range(500)])
        reader = Reader(source.bootstrap_servers, name, f"g-{name}")
        reader.read(123)
        reader.commit()
        reader.close()
        arguments = ("--from", f"two={second.bootstrap_servers}", "--topics", name, "--merge")
        with MirrorProcess(source.bootstrap_servers, target.bootstrap_servers, *arguments) as mirror:
            merged = Reader(target.bootstrap_servers, name)
            values = merged.read(1000)
            assert sorted(values) == sorted(f"{number}-{n}" for number in range(2) for n in range(500))
            assert [each for each in values if each.startswith("0-")] == [f"0-{n}" for n in range(500)]
            merged.close()
            checkpoints = Reader(target.bootstrap_servers, "src.checkpoints.internal")
            wait_for(lambda: checkpoints.read(1))
            checkpoints.close()
            assert mirror.stop() == 0


@pytest.mark.java
def test_apache_kafka_as_a_target_gets_every_record_once_and_groups_move_with_it(
    source: EmbeddedBroker, apache_kafka: ApacheKafka, new_name: Callable[[], str]
) -> None:
    check_produced_mirror(source.bootstrap_servers, apache_kafka.bootstrap_servers, new_name())


@pytest.mark.java
def test_orders_reach_a_mirror_to_apache_kafka(
    source: EmbeddedBroker, apache_kafka: ApacheKafka, new_name: Callable[[], str]
) -> None:
    name, target = new_name(), apache_kafka.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source.bootstrap_servers, name, ["one"])

    def state() -> str:
        return ask(target, lambda client: mirrors_of(client, "src", name))[0].state

    with MirrorProcess(source.bootstrap_servers, target, "--topics", name) as mirror:
        reader = Reader(target, name)
        assert reader.read(1) == ["one"]

        async def do(client: object, what: object) -> None:
            await what(client, await mirrors_of(client, "src", name))  # type: ignore[operator, arg-type]

        ask(target, lambda client: do(client, pause))
        assert state() == "PAUSED"
        ask(target, lambda client: do(client, resume))
        produce(source.bootstrap_servers, name, ["two"])
        assert reader.read(1) == ["two"]
        ask(target, lambda client: do(client, fail_over))
        assert state() == "STOPPED"
        reader.close()
        assert mirror.stop() == 0


@pytest.mark.java
def test_a_topic_that_no_mirror_has_made_is_not_written_into(
    source: EmbeddedBroker, apache_kafka: ApacheKafka, new_name: Callable[[], str]
) -> None:
    name, target = new_name(), apache_kafka.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source.bootstrap_servers, name, ["theirs"])
    ask(target, lambda client: create_topic(client, name, partitions=1))
    produce(target, name, ["ours"])
    with MirrorProcess(source.bootstrap_servers, target, "--topics", name):

        def alarms() -> bool:
            found = ask(target, lambda client: read_statuses(client, "mirror"))
            return any("exists and is not a mirror" in text for status in found for text in status.alarms)

        wait_for(alarms)
    assert ends(target, name) == [1]


def test_two_producing_mirrors_of_one_link_end_with_an_error_and_every_record_is_there_once(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    first = MirrorProcess(source_servers, target_servers, "--topics", name, "--merge")
    with first, MirrorProcess(source_servers, target_servers, "--topics", name, "--merge") as second:
        sent: list[str] = []

        def one_has_ended() -> bool:
            produce(source_servers, name, [str(len(sent))])
            sent.append(str(len(sent)))
            return any("another mirror of the link" in line for line in first.lines + second.lines)

        wait_for(one_has_ended)
        reader = Reader(target_servers, name)
        assert reader.read(len(sent)) == sent
        reader.close()


@pytest.mark.java
def test_a_late_commit_leaves_the_next_transaction_alone_where_kafka_has_transactions_v1(
    source: EmbeddedBroker, new_name: Callable[[], str], tmp_path: Path
) -> None:
    """Kafka 4 lists EndTxn 5 although `transaction.version` is 0."""
    name = new_name()
    source.create_topic(name, partitions=1)
    with FrameProxy() as proxy:
        settings = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
        with (
            ApacheKafka(
                tmp_path, heap="256m", settings=settings, features={"transaction.version": 0}
            ) as kafka,
            MirrorProcess(source.bootstrap_servers, kafka.bootstrap_servers, "--topics", name) as mirror,
        ):
            proxy.forward_to("127.0.0.1", kafka.port)
            late = proxy.hold(ApiKey.END_TXN)
            produce(source.bootstrap_servers, name, ["one"])
            reader = Reader(kafka.bootstrap_servers, name)
            assert reader.read(1) == ["one"]
            assert late.version < 5
            # Of the second transaction: between the records and the position behind them.
            proxy.before(ApiKey.PRODUCE, 2, late.deliver, containing=b"mirror.src")
            produce(source.bootstrap_servers, name, ["two"])
            assert reader.read(1) == ["two"]
            produce(source.bootstrap_servers, name, ["three"])
            assert reader.read(1) == ["three"]
            reader.close()
            assert mirror.stop() == 0
