"""Clusters on both sides: leaders die while batches are in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from barnabas.client.admin import create_topic
from barnabas.client.mirrors.store import LinkStatus
from barnabas.services.mirror.settings import MirrorSettings
from barnabas.testing import EmbeddedBroker, EmbeddedCluster
from tests.services.mirror.test_producing import produce
from tests.support.cli import Cli
from tests.support.mirrors.process import MirrorThread, all_batches, ask, ends, wait_for

pytestmark = pytest.mark.java  # ZooKeeper


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, settings={"auto.leader.rebalance.enable": "false"}) as running:
        yield running


def check_deaths(
    cluster: EmbeddedCluster, mirrored: str, source: str, target: str, name: str, mirror: MirrorThread
) -> None:
    """Leaders of the cluster die one after the other while records are written."""
    for sent in range(2):
        victim = wait_for(lambda: max(0, cluster.leader_of(mirrored)))
        for round_ in range(2):
            for partition in range(3):
                produce(source, name, [f"{sent}-{round_}-{n}" for n in range(100)], partition=partition)
            if round_ == 0:
                cluster.kill(victim)
        wait_for(lambda: ends(target, name) == ends(source, name))
        cluster.brokers[victim].start()
    assert sum(ends(target, name)) == 1200
    assert all_batches(target, name) == all_batches(source, name)
    assert not mirror.partitions(LinkStatus.FAILED)


def test_leaders_of_the_target_die_and_nothing_is_lost_or_doubled(
    cluster: EmbeddedCluster, source: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, cluster.bootstrap_servers
    source.create_topic(name, partitions=3)
    settings = MirrorSettings(topics=name, refresh=0.3, replication_factor=3)
    with MirrorThread(source_servers, target_servers, settings) as mirror:
        wait_for(lambda: ends(target_servers, name) == [0, 0, 0])
        check_deaths(cluster, name, source_servers, target_servers, name, mirror)
        # Without --from it is the mirror's own report that counts.
        promoted = Cli(target_servers).ok("mirror", "promote", "--topics", name, "--yes", "-o", "json").json
        assert [topic["state"] for topic in promoted["topics"]] == ["STOPPED"]


def test_leaders_of_the_source_die_and_their_epochs_go_with_the_records(
    cluster: EmbeddedCluster, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), cluster.bootstrap_servers, target.bootstrap_servers
    ask(source_servers, lambda client: create_topic(client, name, partitions=3, replication_factor=3))
    with MirrorThread(source_servers, target_servers, MirrorSettings(topics=name, refresh=0.3)) as mirror:
        check_deaths(cluster, name, source_servers, target_servers, name, mirror)
