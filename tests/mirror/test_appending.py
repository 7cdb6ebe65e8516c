"""A Barnabas target has the batches, offsets, epochs and groups of its source: Barnabas, or Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.client.admin import (
    create_topic,
)
from barnabas.client.groups import committed_offsets
from barnabas.testing import EmbeddedBroker
from tests.apache_kafka import ApacheKafka
from tests.mirror.mirror_process import MirrorProcess, all_batches, ask, ends, until
from tests.mirror.test_producing import CODECS, Reader, produce, transact


def is_equal(source: str, target: str, name: str) -> bool:
    return ends(source, name) == ends(target, name) and all_batches(source, name) == all_batches(target, name)


def check_identical_mirror(source: str, target: str, name: str) -> None:
    ask(source, lambda client: create_topic(client, name, partitions=2, configs={"retention.ms": "-1"}))
    expected: list[str] = []
    mirror = MirrorProcess(source, target, "--topics", name)
    with mirror:
        for codec in CODECS:
            values = [f"{codec}-{n}" for n in range(200)]
            produce(source, name, values, codec)
            produce(source, name, values, codec, partition=1)
            expected += values
        mirror.kill()
        transact(source, name, ["aborted"] * 50, commit=False)
        committed = [f"t-{n}" for n in range(100)]
        transact(source, name, committed, commit=True)
        expected += committed
        reader = Reader(source, name, f"group-{name}")
        assert reader.read(700) == expected[:700]
        reader.commit()
        at = reader.seen[-1][0] + 1
        reader.close()
        mirror.start()
        until(lambda: is_equal(source, target, name))

        def moved_group() -> bool:
            commits = ask(target, lambda client: committed_offsets(client, f"group-{name}"))
            return [commit.offset for commit in commits.values()] == [at]

        until(moved_group)
        moved = Reader(target, name, f"group-{name}")
        assert moved.read(len(expected) - 700) == expected[700:]
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
