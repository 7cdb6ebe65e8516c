"""Partition reassignment: planned, started, cancelled, compared with kafka-reassign-partitions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from barnabas.client.cluster import Client
from barnabas.client.placement.planner import ReplicaMove
from barnabas.client.placement.plans import ReassignmentPlan
from barnabas.client.placement.reassignments import alter
from barnabas.common.types import TopicPartition
from barnabas.security.authz import Action, Operation, ResourceType
from barnabas.services.console.administration.moving import stored_form
from barnabas.testing import EmbeddedCluster
from tests.services.console.pages.administration import created, look_anew, write
from tests.services.console.pages.limited import Limited, OnlyOne
from tests.services.console.web import CLUSTER, RunningConsole, Web, running_console
from tests.support.kafka.tools import run_tool
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def console(cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_console(cluster.bootstrap_servers, tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def web(console: RunningConsole) -> Iterator[Web]:
    with console.web() as client:
        yield client


def replicas(web: Web, topic: str) -> list[list[int]]:
    return [row["replicas"] for row in web.api(f"/topics/{topic}/partitions").json["rows"]]


def settled(web: Web) -> Any:
    return eventually(
        lambda: web.api("/moves").json, lambda page: not page["under_way"] and not page["waiting"]
    )


def test_broker_is_drained_by_the_plan_that_was_shown(
    web: Web, console: RunningConsole, cluster: EmbeddedCluster
) -> None:
    topic = created(web, "drained", partitions=4, replicas=2)
    write(cluster.bootstrap_servers, topic, 200, size=1000)
    page = web.api("/moves", plan="drain", broker=3).json
    plan = page["plan"]
    own = [move for move in plan["moves"] if move["topic"] == topic]
    assert own
    assert all(3 in move["before"] and 3 not in move["after"] for move in own)
    if any(move["partition"] == 0 for move in own):
        assert plan["copied_bytes"] >= 200_000
    assert "to copy" in web.get("/moves", plan="drain", broker=3).text

    assert web.change("/moves/start", plan="drain", broker=3, digest="other").status == 409
    started = web.post("/moves/start", plan="drain", broker=3, digest=plan["digest"], at_once=2)
    assert started.status == 303, started.text
    after = {move["partition"]: move["after"] for move in own}
    moved = eventually(lambda: replicas(web, topic), lambda found: all(3 not in brokers for brokers in found))
    assert [moved[partition] for partition in sorted(after)] == [
        after[partition] for partition in sorted(after)
    ]
    settled(web)
    look_anew(console)
    page = web.api("/moves").json
    assert page["error"] == ""
    (third,) = (broker for broker in page["brokers"] if broker["id"] == 3)
    assert (third["leaders"], third["replicas"]) == (0, 0)
    assert web.api("/brokers/3").json["broker"]["replicas"] == 0

    balance = web.api("/moves", plan="balance").json["plan"]
    assert balance["count"] > 0
    assert web.change("/moves/start", plan="balance", digest=balance["digest"]).status == 200
    eventually(
        lambda: web.api("/moves", plan="balance").json,
        lambda page: not page["under_way"] and not page["waiting"] and not page["plan"]["count"],
    )
    settled(web)
    look_anew(console)
    counts = [broker["replicas"] for broker in web.api("/moves").json["brokers"]]
    assert max(counts) - min(counts) <= 1


@pytest.mark.java
def test_a_move_that_cannot_end_is_shown_as_kafka_s_tool_does_and_cancelled(
    web: Web, console: RunningConsole, cluster: EmbeddedCluster
) -> None:
    topic = created(web, "stuck", partitions=1, replicas=1)
    write(cluster.bootstrap_servers, topic, 50)
    (before,) = replicas(web, topic)
    others = [broker for broker in (1, 2, 3) if broker not in before]
    assert web.api("/moves", plan="topic", topic=topic, to="1,1").json["field"] == "to"
    assert web.api("/moves", plan="topic", topic=topic, to="9").status == 400
    assert web.api("/moves", plan="topic", topic="nowhere", to="1").status == 404

    removed = others[1]
    wanted = {"plan": "topic", "topic": topic, "to": f"{removed},{before[0]}"}
    (planned,) = web.api("/moves", **wanted).json["plan"]["moves"]
    assert planned["after"] == [removed, before[0]]
    cluster.kill(removed)
    begin_move(cluster, topic, planned["after"])
    (moving,) = eventually(lambda: web.api("/moves").json.get("under_way"), bool)
    assert (moving["topic"], moving["adding"]) == (topic, [removed])
    assert moving["copied"] == 0
    assert topic in web.get("/moves").text
    page = as_one_who_describes_the_cluster(console)
    assert (page["under_way"], page["left_out"], page["may_alter"]) == ([], 1, False)
    rows = eventually(
        lambda: web.api(f"/topics/{topic}/partitions").json["rows"], lambda rows: rows[0]["flags"]
    )
    assert "under-replicated" in rows[0]["flags"]
    output = run_tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "--bootstrap-server", cluster.bootstrap_servers, "--list",
    ).check()  # fmt: skip
    assert re.search(rf"{topic}-0: replicas: .*adding: {removed}", output.stdout)
    assert "1 moves cancelled" in web.change("/moves/cancel", topic=topic, partition=0).json["message"]
    assert eventually(lambda: replicas(web, topic), lambda found: found == [before]) == [before]
    cluster.brokers[removed].start()


def as_one_who_describes_the_cluster(console: RunningConsole) -> Any:
    gate, limited = console.server.app.gate, Limited()
    limited.rights = {Action(Operation.DESCRIBE, ResourceType.CLUSTER)}
    console.server.app.gate = OnlyOne(limited)
    try:
        with console.web() as web:
            return web.api("/moves").json
    finally:
        console.server.app.gate = gate


@pytest.mark.parametrize("by_console", [True, False])
def test_plan_of_a_killed_console_continues_without_changed_partitions(
    web: Web, cluster: EmbeddedCluster, tmp_path: Path, by_console: bool
) -> None:
    topic = created(web, "interrupted", partitions=3, replicas=1)
    before = replicas(web, topic)
    after = [[brokers[0] % 3 + 1] for brokers in before]
    moves = [
        ReplicaMove(TopicPartition(topic, index), tuple(before[index]), tuple(after[index]))
        for index in (0, 1)
    ]
    changed = ReplicaMove(TopicPartition(topic, 2), (9,), tuple(after[2]))
    deleted = ReplicaMove(TopicPartition("deleted meanwhile", 0), (1,), (2,))
    stored = stored_form(ReassignmentPlan([*moves, changed, deleted], [], {}), 1, by_console=by_console)
    file = tmp_path / CLUSTER / "moves.json"
    file.parent.mkdir()
    file.write_bytes(msgspec.json.encode(stored))

    with running_console(cluster.bootstrap_servers, tmp_path) as later, later.web() as pages:
        if not by_console:
            assert pages.api("/moves").json["interrupted"] == 4
            assert "Continue the plan" in pages.get("/moves").text
            assert pages.change("/moves/resume").json["message"].startswith("2 partitions")
        wanted = [after[0], after[1], before[2]]
        assert eventually(lambda: replicas(web, topic), lambda found: found == wanted) == wanted
        assert eventually(file.exists, lambda exists: not exists) is False
        assert pages.api("/moves").json["interrupted"] == 0
        assert pages.change("/moves/resume").status == 409


def begin_move(cluster: EmbeddedCluster, topic: str, brokers: list[int]) -> None:
    """As a plan would that was begun just before the broker died."""

    async def main() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            await alter(client, {TopicPartition(topic, 0): brokers})

    asyncio.run(main())
