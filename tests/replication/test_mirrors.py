"""Mirrors in a real cluster: brokers die during appends and during a promotion."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.protocol.messages.mirror import AlteredMirrorTopic, MirrorAction, MirrorState
from barnabas.testing import EmbeddedCluster
from simulation.invariants import contents
from tests.support.mirrors.target import TOPIC, Target, batch
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

PARTITIONS, TOPICS = 250, 4
PROMOTED_WITHIN = 60.0
"""Seconds, on a machine with much else to do: docs/mirror.md has what was measured."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_zookeeper()
    settings = {"min.insync.replicas": "2", "auto.leader.rebalance.enable": "false"}
    with EmbeddedCluster(brokers=3, settings=settings) as running:
        yield running


def leader(cluster: EmbeddedCluster, name: str = TOPIC) -> Target:
    """Send a request to the leader of the first partition."""
    number = until(
        lambda: (found := cluster.leader_of(name)) > 0 and cluster.brokers[found].running and found
    )
    return Target(cluster.brokers[number].port)


def append(cluster: EmbeddedCluster, *batches: bytes, name: str = TOPIC) -> int:
    """Append until any leader has them; return the log end."""

    def attempt() -> int:
        with leader(cluster, name) as target:
            answer = target.append(*batches, name=name)
            return 0 if answer.error_code else answer.log_end_offset

    return int(until(attempt))


def logs(cluster: EmbeddedCluster, name: str = TOPIC) -> list[Log]:
    found = [broker.broker.replicas.find(name, 0) for broker in cluster.running]
    return [partition.log for partition in found if partition is not None]


def are_equal(cluster: EmbeddedCluster, end: int, name: str = TOPIC) -> bool:
    parts = [contents(log) for log in logs(cluster, name)]
    ends = {log.log_end_offset for log in logs(cluster, name)}
    return len(parts) == 3 and all(each == parts[0] for each in parts) and ends == {end}


def test_replicas_follow_the_epochs_of_the_source_and_a_dead_leader_loses_nothing(
    cluster: EmbeddedCluster,
) -> None:
    with Target(cluster.running[0].port) as target:
        target.create()
        target.raise_epoch(40)
    assert append(cluster, batch(0, 5, 3), batch(5, 5, 40)) == 10
    dead = cluster.leader_of(TOPIC)
    cluster.kill(dead)
    until(lambda: cluster.leader_of(TOPIC) not in (dead, -1))
    assert append(cluster, batch(5, 5, 40), batch(10, 5, 40)) == 15
    cluster.brokers[dead].start()
    until(lambda: are_equal(cluster, 15))
    assert {log.epochs.entries for log in logs(cluster)} == {((3, 0), (40, 5))}
    with Target(cluster.running[0].port) as target:
        target.alter(MirrorAction.FAILOVER)
        assert target.until_state(MirrorState.STOPPED).partitions[0].promoted_at == 15


def test_a_cut_reaches_every_replica(cluster: EmbeddedCluster) -> None:
    with Target(cluster.running[0].port) as target:
        target.create("cut")
        target.raise_epoch(9, name="cut")
    append(cluster, batch(0, 5, 1), batch(5, 5, 2), name="cut")
    until(lambda: are_equal(cluster, 10, "cut"))
    with leader(cluster, "cut") as target:
        answer = target.append(batch(5, 3, 4), name="cut", truncate_to=5, expected_log_end=10)
        assert (answer.error_code, answer.log_end_offset) == (ErrorCode.NONE, 8)
    until(lambda: are_equal(cluster, 8, "cut"))


def test_a_thousand_partitions_are_promoted_in_seconds(cluster: EmbeddedCluster) -> None:
    names = [f"wide{number}" for number in range(TOPICS)]
    with Target(cluster.running[0].port) as target:
        for name in names:
            target.create(name, partitions=PARTITIONS, replicas=1)
        until(lambda: all(_is_led(cluster, name) for name in names))
        began = time.monotonic()
        wanted = [AlteredMirrorTopic(name=name, action=MirrorAction.FAILOVER) for name in names]
        answers = target.alter_all(wanted).topics
        assert [each.error_code for each in answers] == [0] * TOPICS
        for name in names:
            target.until_state(MirrorState.STOPPED, name)
        seconds = time.monotonic() - began
    assert seconds < PROMOTED_WITHIN, f"{TOPICS * PARTITIONS} partitions took {seconds:.1f} s"


def _is_led(cluster: EmbeddedCluster, name: str) -> bool:
    topic = cluster.running[0].broker.image.topics.get(name)
    return topic is not None and all(
        (found := cluster.brokers[state.leader].broker.replicas.find(name, index)) is not None
        and found.is_leader
        for index, state in enumerate(topic.partitions)
    )
