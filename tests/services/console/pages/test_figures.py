"""The overview, the list of topics, curves and the stream of ticks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import create_topic
from barnabas.client.cluster import Client
from barnabas.client.groups import commit_offsets
from barnabas.client.producer import Producer
from barnabas.common.types import TopicPartition
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.services.console.routes import ConsoleMatch
from barnabas.services.console.sampling.sampler import Sampler
from barnabas.services.console.users import AnonymousConsoleUser, ConsoleUser, Head
from barnabas.testing import EmbeddedBroker
from tests.services.console.web import RunningConsole, Web, running_console

HOSTILE = "<script>alert(1)</script>/../\u202e&amp;"
EARLIER_MS = 300_000
TOPICS = {"orders": 3, "letters": 1, "secret.pay": 1, **{f"crowd-{number}": 1 for number in range(60)}}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    async def fill(address: str) -> None:
        # Not at import: a full run reaches this module much later, when the records would be outside of 15m.
        earlier = int(time.time() * 1000) - EARLIER_MS
        async with Client(address) as client:
            for name, partitions in TOPICS.items():
                await create_topic(client, name, partitions=partitions)
            await create_topic(
                client, "_schemas", partitions=1
            )  # of a tool; brokers do not flag it as internal
            compacted = {"cleanup.policy": "compact", "retention.ms": "1"}
            await create_topic(client, "_compacted", partitions=1, configs=compacted)
            await create_topic(client, "_kept", partitions=1, configs={"retention.ms": "86400000"})
            async with Producer(client) as producer:
                for number in range(30):
                    await producer.send("orders", b"x" * 100, partition=number % 3)
                await producer.send("secret.pay", b"x")
                for number in range(30):
                    await producer.send("letters", b"x", timestamp=earlier + number)
            await commit_offsets(client, HOSTILE, {TopicPartition("orders", 0): 4})
            await commit_offsets(client, "hidden", {TopicPartition("secret.pay", 0): 0})

    with EmbeddedBroker() as broker:
        asyncio.run(fill(broker.bootstrap_servers))
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def shown(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_console(bootstrap, tmp_path_factory.mktemp("console")) as running:
        for _ in range(2):  # rates need two of them
            running.run(sampler_of(running).refresh())
        yield running


@pytest.fixture
def pages(shown: RunningConsole) -> Iterator[Web]:
    with shown.web() as client:
        yield client


def sampler_of(shown: RunningConsole) -> Sampler:
    return next(iter(shown.server.clusters.values())).sampler


def test_overview_shows_the_state_of_the_cluster(pages: Web) -> None:
    page = pages.api("/").json

    assert len(page["brokers"]) == 1
    assert page["brokers"][0]["is_controller"]
    assert (page["offline"], page["under_replicated"]) == (0, 0)
    assert page["partitions"] >= sum(TOPICS.values())
    assert page["worst"]["group"] in (HOSTILE, "hidden")
    assert page["figures"]["error"] == ""
    assert pages.get("/").status == 200


def test_names_from_clients_are_escaped_everywhere(pages: Web) -> None:
    for path in (
        "/",
        "/topics",
        "/groups",
        "/groups/%3Cscript%3Ealert%281%29%3C%2Fscript%3E%2F..%2F%E2%80%AE%26amp%3B",
    ):
        answer = pages.ask("GET", pages.base + path)
        assert answer.status == 200, path
        assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert" in answer.text


def test_the_list_of_topics_shows_retention(pages: Web) -> None:
    rows = {row["name"]: row for row in pages.api("/topics", internal="true", q="_").json["topics"]}
    kept = {name: (row["kept_seconds"], row["tags"]) for name, row in rows.items()}
    assert kept["_compacted"] == (-1, ["compacted"])
    assert kept["_kept"] == (86_400, [])
    assert "forever" in pages.get("/topics", internal="true", q="_comp").text


def test_topics_are_listed_by_page_filtered_and_sorted(pages: Web) -> None:
    first, second = pages.api("/topics").json, pages.api("/topics", page=2).json
    names = [row["name"] for row in first["topics"] + second["topics"]]
    largest = pages.api("/topics", sort="size").json["topics"][0]
    orders = pages.api("/topics", q="ORD").json["topics"]

    assert names == sorted(TOPICS)
    assert (first["paging"]["rows"], first["paging"]["pages"]) == (len(TOPICS), 2)
    assert largest["name"] == "orders"
    assert [(row["partitions"], row["lag"], row["group"]) for row in orders] == [(3, 6, HOSTILE)]
    assert [row["name"] for row in pages.api("/topics", name=["letters", "orders"]).json["topics"]] == [
        "letters",
        "orders",
    ]
    with_internal = {
        row["name"]: row["internal"] for row in pages.api("/topics", internal="true").json["topics"]
    }
    assert with_internal["_schemas"]
    assert "__consumer_offsets" in with_internal
    assert pages.api("/topics", page=99).json["paging"]["page"] == 2
    assert pages.api("/topics", sort="colour").json["field"] == "sort"
    assert "Next" in pages.get("/topics").text


def test_rate_curves_begin_before_the_console_was_started(pages: Web) -> None:
    answer = pages.api("/curves", series=["topic/letters/in", "cluster/in"], since="15m").json
    letters, everything = answer["curves"]
    step = (answer["times"][1] - answer["times"][0]) / 1000

    assert len(letters) == len(answer["times"])
    assert None not in letters[:-2]
    assert sum(value or 0 for value in letters) * step == pytest.approx(30, abs=0.1)
    assert sum(value or 0 for value in everything) >= sum(value or 0 for value in letters)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"series": "cluster/in", "since": "long ago"}, "since"),
        ({"series": "nonsense"}, "series"),
        ({"series": [f"topic/t{n}/in" for n in range(17)]}, "series"),
    ],
)
def test_curves_that_cannot_be_are_refused_with_the_field(
    pages: Web, query: dict[str, Any], field: str
) -> None:
    answer = pages.api("/curves", **query)

    assert (answer.status, answer.json["field"]) == (400, field)


def test_each_refresh_is_a_tick_of_the_stream(shown: RunningConsole, pages: Web) -> None:
    events = pages.events("/live")
    name, tick = next(events)
    later = shown.run(sampler_of(shown).refresh())
    _, second = next(events)
    events.close()

    assert name == "tick"
    assert second["taken_ms"] == later.taken_ms >= tick["taken_ms"]


def test_pages_of_an_unreachable_cluster_report_it(tmp_path: Path) -> None:
    with running_console("127.0.0.1:1", tmp_path) as away, away.web() as web:
        away.run(sampler_of(away).refresh())
        for path in ("/", "/topics", "/groups"):
            answer = web.get(path)
            assert answer.status == 200
            assert "No newer figures: cannot connect" in answer.text


class OneTopic(AnonymousConsoleUser):
    """May see `orders` and the cluster, and nothing else."""

    name = "guest"

    async def allows(self, action: Action) -> bool:
        return action.resource_type is ResourceType.CLUSTER or action.name == "orders"

    async def allowed(self, operation: Operation, resource_type: ResourceType, names: Any) -> set[str]:
        return {name for name in names if await self.allows(Action(operation, resource_type, name))}


class GuestGate:
    def check(self, head: Head) -> None:
        """Nothing is asked."""

    async def user(self, head: Head, match: ConsoleMatch) -> ConsoleUser:
        return OneTopic()

    async def close(self) -> None:
        """Nothing is kept."""


def test_topics_and_groups_without_describe_are_hidden(shown: RunningConsole) -> None:
    gate, shown.server.app.gate = shown.server.app.gate, GuestGate()
    try:
        with shown.web() as web:
            overview, topics, groups = (web.api(path).json for path in ("/", "/topics", "/groups"))
            statuses = {
                path: web.api(path).status
                for path in (
                    *("/groups/hidden", "/groups/hidden/offsets", "/groups/hidden/rebalances"),
                    *("/curves?series=topic/secret.pay/in", "/curves?series=group/hidden/lag"),
                )
            }
            moved = web.change("/groups/hidden/offsets", changes=[]).status
            allowed = web.api("/curves", series="topic/orders/in").status
            found = web.api("/goto", q="hid").json["found"]
    finally:
        shown.server.app.gate = gate
    assert overview["worst"] is None
    assert [(row["name"], row["group"]) for row in topics["topics"]] == [("orders", "")]
    assert groups["groups"] == []
    assert set(statuses.values()) == {403}
    assert (moved, allowed, found) == (403, 200, [])


def test_a_topic_that_is_written_to_has_a_little_curve(shown: RunningConsole, pages: Web) -> None:
    history = next(iter(shown.server.clusters.values())).history
    now = int(time.time() * 1000)
    for at in range(12):
        shown.run(history.record(now - (12 - at) * 600_000, {"topic/orders/in": float(at)}))

    (row,) = pages.api("/topics", q="orders").json["topics"]

    assert row["spark"].startswith("M")
    assert "<path d=" in pages.get("/topics", q="orders").text
