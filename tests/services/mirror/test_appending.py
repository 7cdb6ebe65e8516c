"""A Barnabas target has the batches, offsets, epochs and groups of its source (Barnabas or Apache Kafka)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from barnabas.client.admin import create_topic
from barnabas.client.groups import committed_offsets
from barnabas.client.mirrors.store import LinkStatus
from barnabas.services.mirror.settings import MirrorSettings
from barnabas.testing import EmbeddedBroker
from tests.services.mirror.test_producing import CODECS, Reader, produce, transact
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.tools import run_tool
from tests.support.mirrors.process import MirrorProcess, MirrorThread, all_batches, ask, ends, wait_for
from tests.support.programs import free_port

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def is_equal(source: str, target: str, name: str) -> bool:
    return ends(source, name) == ends(target, name) and all_batches(source, name) == all_batches(target, name)


def check_identical_mirror(source: str, target: str, name: str) -> None:
    ask(source, lambda client: create_topic(client, name, partitions=2, configs={"retention.ms": "-1"}))
    source_servers: list[str] = []
    mirror = MirrorProcess(source, target, "--topics", name)
    with mirror:
        for codec in CODECS:
            values = [f"{codec}-{n}" for n in range(200)]
            produce(source, name, values, codec)
            produce(source, name, values, codec, partition=1)
            source_servers += values
        mirror.kill()
        transact(source, name, ["aborted"] * 50, commit=False)
        committed = [f"t-{n}" for n in range(100)]
        transact(source, name, committed, commit=True)
        source_servers += committed
        reader = Reader(source, name, f"group-{name}")
        assert reader.read(700) == source_servers[:700]
        reader.commit()
        at = reader.seen[-1][0] + 1
        reader.close()
        mirror.start()
        wait_for(lambda: is_equal(source, target, name))

        def moved_group() -> bool:
            commits = ask(target, lambda client: committed_offsets(client, f"group-{name}"))
            return [commit.offset for commit in commits.values()] == [at]

        wait_for(moved_group)
        moved = Reader(target, name, f"group-{name}")
        assert moved.read(len(source_servers) - 700) == source_servers[700:]
        assert moved.seen[0][0] == at
        moved.close()
        assert mirror.stop() == 0


def test_a_mirror_of_barnabas_is_equal_byte_for_byte_and_groups_move_to_it(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    check_identical_mirror(source.bootstrap_servers, target.bootstrap_servers, new_name())


@pytest.mark.java
def test_a_mirror_of_apache_kafka_is_equal_byte_for_byte_and_groups_move_to_it(
    apache_kafka: ApacheKafka, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    check_identical_mirror(apache_kafka.bootstrap_servers, target.bootstrap_servers, new_name())


@pytest.mark.java
def test_a_java_consumer_moves_to_the_mirror_without_loss_or_duplicate(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    values = [str(n) for n in range(100)]
    produce(source_servers, name, values, "zstd")

    def read(bootstrap: str, count: int) -> list[str]:
        requested = (
            "--bootstrap-server",
            bootstrap,
            "--topic",
            name,
            "--group",
            f"java-{name}",
            "--from-beginning",
        )
        ended = run_tool(CONSUMER, *requested, "--max-messages", str(count), "--timeout-ms", "30000")
        return ended.check().stdout.split()

    assert read(source_servers, 40) == values[:40]
    with MirrorThread(source_servers, target_servers, MirrorSettings(topics=name, refresh=0.3)):

        def commits() -> list[int]:
            found = ask(target_servers, lambda client: committed_offsets(client, f"java-{name}"))
            return [each.offset for each in found.values()]

        wait_for(lambda: commits() == [40])
        assert read(target_servers, 60) == values[40:]


def test_a_compacted_topic_is_mirrored_with_its_gaps(
    target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, target_servers = new_name(), target.bootstrap_servers
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1",
        "delete.retention.ms": "0",
    }
    with EmbeddedBroker({"log.cleaner.backoff.ms": "50"}) as source:
        source_servers = source.bootstrap_servers
        source.create_topic(name, partitions=1, configs=compacted)
        producer = Producer({"bootstrap.servers": source_servers})
        for number in range(2000):
            producer.produce(name, b"x" * 2000, f"key-{number % 50}", partition=0)
        assert producer.flush(60) == 0
        wait_for(lambda: len(all_batches(source_servers, name)[0]) < 2_500_000)
        with MirrorThread(source_servers, target_servers, MirrorSettings(topics=name, refresh=0.3)) as mirror:
            wait_for(lambda: ends(target_servers, name) == ends(source_servers, name) == [2000])
            wait_for(lambda: all_batches(target_servers, name) == all_batches(source_servers, name))
            assert not mirror.partitions(LinkStatus.FAILED)


def test_metrics_report_the_lag_of_a_mirror(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, port = new_name(), free_port()
    source.create_topic(name, partitions=1)
    produce(source.bootstrap_servers, name, ["one"])
    arguments = ("--topics", name, "--metrics", f"127.0.0.1:{port}")
    with MirrorProcess(source.bootstrap_servers, target.bootstrap_servers, *arguments) as mirror:

        def page() -> str:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())

        wait_for(lambda: f'barnabas_mirror_lag_offsets{{link="src",topic="{name}"}} 0' in page())
        assert 'barnabas_mirror_partitions{link="src",state="ACTIVE"} 1' in page()
        assert mirror.stop() == 0
