"""`barnabas cluster status|move|drain|rebalance` on three brokers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.cluster import Client
from barnabas.client.placement import reassignments
from barnabas.common.types import TopicPartition
from barnabas.testing import EmbeddedCluster
from tests.support.cli import Cli
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_zookeeper()
    with EmbeddedCluster(brokers=3, settings={"auto.leader.rebalance.enable": "false"}) as running:
        yield running


@pytest.fixture
def cli(cluster: EmbeddedCluster) -> Cli:
    return Cli(cluster.bootstrap_servers)


@pytest.fixture
def topic(cluster: EmbeddedCluster, cli: Cli, new_name: Callable[[], str]) -> Iterator[str]:
    """Six partitions with two replicas each and records; deleted afterwards, so that tests are independent."""
    name = cluster.create_topic(new_name(), partitions=6, replication_factor=2)
    cli.ok(
        "produce",
        name,
        "--key-separator",
        ":",
        stdin="".join(f"{number}:record {number}\n" for number in range(60)),
    )
    yield name
    cli.ok("topics", "delete", name, "--yes")


def replicas(cli: Cli, topic: str) -> list[list[int]]:
    described = cli.ok("topics", "describe", topic, "-o", "json").json
    return [partition["replicas"] for partition in described[0]["partitions"]]


def leaders(cli: Cli, topic: str) -> list[int]:
    described = cli.ok("topics", "describe", topic, "-o", "json").json
    return [partition["leader"] for partition in described[0]["partitions"]]


def records(cli: Cli, topic: str) -> set[str]:
    return set(cli.ok("consume", topic, "--from", "beginning", "--exit-at-end").out.splitlines())


ALL_RECORDS = {f"record {number}" for number in range(60)}


def test_status_counts_replicas_and_leaders_of_brokers(
    cluster: EmbeddedCluster, cli: Cli, topic: str
) -> None:
    until(lambda: cli.ok("cluster", "status", "-o", "json").json["under_replicated"] == [])
    status = cli.ok("cluster", "status", "-o", "json").json
    assert status["controller_id"] == cluster.controller()
    assert [broker["state"] for broker in status["brokers"]] == ["up"] * 3
    assert sum(broker["leaders"] for broker in status["brokers"]) == status["partitions"] == 6
    assert sum(broker["replicas"] for broker in status["brokers"]) == 12
    assert all(broker["bytes"] > 0 for broker in status["brokers"])
    assert (status["offline"], status["reassignments"]) == ([], [])
    table = cli.ok("cluster", "status").out
    assert "controller" in table
    assert "under-replicated: none" in table


def test_a_plan_changes_nothing_until_it_is_confirmed(cli: Cli, topic: str) -> None:
    before = replicas(cli, topic)
    shown = cli.ok("cluster", "move", topic, "--to", "3,2,1")
    assert "--yes carries out the plan" in shown.err
    assert "6 partitions to change" in shown.out
    assert replicas(cli, topic) == before


def test_one_partition_moves_to_the_brokers_named_and_its_records_with_it(cli: Cli, topic: str) -> None:
    (away,) = {1, 2, 3} - set(replicas(cli, topic)[0])
    stays = replicas(cli, topic)[0][0]
    moved = cli.ok("cluster", "move", topic, "-p", "0", "--to", f"{away},{stays}", "--yes", "-o", "json").json
    assert moved["carried_out"]
    assert replicas(cli, topic)[0] == [away, stays]
    until(lambda: leaders(cli, topic)[0] == away)
    assert records(cli, topic) == ALL_RECORDS


def test_a_topic_on_more_brokers_has_more_replicas_and_leaders_everywhere(cli: Cli, topic: str) -> None:
    cli.ok("cluster", "move", topic, "--to", "1,2,3", "--yes")
    assert {len(brokers) for brokers in replicas(cli, topic)} == {3}
    until(lambda: Counter(leaders(cli, topic)) == {1: 2, 2: 2, 3: 2})
    assert records(cli, topic) == ALL_RECORDS


def test_a_drained_broker_holds_nothing(cli: Cli, topic: str) -> None:
    drained = cli.ok("cluster", "drain", "3", "--yes")
    assert "has no replicas left" in drained.err
    assert all(3 not in brokers for brokers in replicas(cli, topic))
    until(lambda: Counter(leaders(cli, topic)) == {1: 3, 2: 3})
    assert records(cli, topic) == ALL_RECORDS
    assert cli.ok("cluster", "drain", "3").err.startswith("Broker 3 has no replicas left")


def test_broker_without_a_replacement_is_not_drained(cli: Cli, topic: str) -> None:
    cli.ok("cluster", "move", topic, "--to", "1,2,3", "--yes")
    refused = cli("cluster", "drain", "3", "--yes")
    assert refused.code == 1
    assert "start another broker" in refused.err
    assert "broker 9 does not exist" in cli("cluster", "drain", "9").err


def test_a_lopsided_cluster_is_balanced_with_few_copies(cli: Cli, topic: str) -> None:
    cli.ok("cluster", "move", topic, "--to", "1", "--yes")
    assert set(leaders(cli, topic)) == {1}
    plan = cli.ok("cluster", "rebalance", "-o", "json").json
    assert (len(plan["moves"]), plan["carried_out"]) == (4, False)
    assert plan["copied_bytes"] > 0
    done = cli.ok("cluster", "rebalance", "--yes", "--at-once", "2")
    assert "balanced" in done.err
    assert Counter(brokers[0] for brokers in replicas(cli, topic)) == {1: 2, 2: 2, 3: 2}
    until(lambda: Counter(leaders(cli, topic)) == {1: 2, 2: 2, 3: 2})
    assert records(cli, topic) == ALL_RECORDS
    assert cli.ok("cluster", "rebalance", "-o", "json").json["moves"] == []


@pytest.mark.slow
def test_a_move_to_a_broker_that_is_down_is_seen_and_can_be_called_off(
    cluster: EmbeddedCluster, cli: Cli, topic: str
) -> None:
    cli.ok("cluster", "move", topic, "--to", "1,2", "--yes")
    cluster.brokers[3].stop()
    try:
        begin(cluster, {TopicPartition(topic, 0): [3, 1]})
        (moving,) = until_seen(cli, "reassignments")
        assert (moving["adding"], moving["removing"]) == ([3], [2])
        states = {
            broker["id"]: broker["state"]
            for broker in cli.ok("cluster", "status", "-o", "json").json["brokers"]
        }
        assert states == {1: "up", 2: "up", 3: "down"}
        assert cli.ok("cluster", "move", topic, "--cancel", "-o", "json").json["cancelled"] == [f"{topic}-0"]
        until(lambda: cli.ok("cluster", "status", "-o", "json").json["reassignments"] == [])
        until(lambda: replicas(cli, topic)[0] == [1, 2])
    finally:
        cluster.brokers[3].start()


@pytest.mark.slow
def test_a_broker_that_is_stopped_can_be_forgotten_and_one_that_runs_cannot(
    cluster: EmbeddedCluster, cli: Cli, topic: str
) -> None:
    assert "Stop it before" in cli("cluster", "unregister", "3", "--yes").err
    cli.ok("cluster", "drain", "3", "--yes")
    cluster.brokers[3].stop()
    try:
        until(lambda: cli("cluster", "unregister", "3", "--yes").code == 0)
        until(lambda: len(cli.ok("cluster", "status", "-o", "json").json["brokers"]) == 2)
        assert records(cli, topic) == ALL_RECORDS
    finally:
        cluster.brokers[3].start()


def begin(cluster: EmbeddedCluster, targets: dict[TopicPartition, list[int]]) -> None:
    async def work() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            await reassignments.alter(client, targets)

    asyncio.run(work())


def until_seen(cli: Cli, what: str) -> Any:
    until(lambda: cli.ok("cluster", "status", "-o", "json").json[what])
    return cli.ok("cluster", "status", "-o", "json").json[what]


def test_wrong_use_is_refused_with_a_reason(cli: Cli, topic: str) -> None:
    for arguments, reason in (
        ((topic,), "either --to"),
        ((topic, "--to", "1,1"), "not a list of distinct broker ids"),
        ((topic, "--to", "1", "--replicas", "2"), "need as many brokers"),
        (("nothing-here", "--to", "1"), "does not exist"),
        ((topic, "--to", "1", "-p", "77"), "there is no 77"),
        ((topic, "--to", "1,77", "--yes"), "no such broker is registered"),
    ):
        refused = cli("cluster", "move", *arguments)
        assert refused.code != 0
        assert reason in refused.err


def test_a_move_below_min_insync_replicas_is_warned_about(cli: Cli, topic: str) -> None:
    cli.ok("configs", "set", "topic", topic, "min.insync.replicas=2")
    warned = cli.ok("cluster", "move", topic, "--to", "1").err
    assert f"{topic}-0 would have fewer replicas than its min.insync.replicas=2" in warned
    assert "min.insync.replicas" not in cli.ok("cluster", "move", topic, "--to", "1,3").err
