"""Lineage from real reports in `__barnabas_status`: columns, lines, rates, limits."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from barnabas.client.cluster import Client
from barnabas.client.producer import Producer
from barnabas.client.status import STATUS_TOPIC, TOPIC_SETTINGS, ProcessStatus, StatusPart
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from tests.services.console.pages.limited import Limited
from tests.services.console.web import RunningConsole, Web

READS_STATUS = Action(Operation.READ, ResourceType.TOPIC, STATUS_TOPIC)
COUNTS = 40


def reports(rows: int, updated: int) -> list[ProcessStatus]:
    flow = StatusPart("f", reads=["clicks"], topics=["sessions"], tables=["by_minute"], counts={"rows": rows})
    load = StatusPart("w", reads=["clicks", "orders"], tables=["lake"], counts={"rows": rows})
    statuses = [
        ProcessStatus("pipeline", "activity", "running", parts=[flow]),
        ProcessStatus("pipeline", "load", "failed", parts=[load]),
        ProcessStatus("agent", "shop", "running", parts=[StatusPart("app", topics=["clicks"])]),
        ProcessStatus("connector", "pg", "running", parts=[StatusPart("tables", topics=["orders"])]),
        ProcessStatus("mirror", "eu", "running", parts=[StatusPart("orders")]),
    ]
    return [msgspec.structs.replace(each, updated=updated) for each in statuses]


async def write(bootstrap: str, statuses: list[ProcessStatus]) -> None:
    async with Client(bootstrap) as client, Producer(client) as producer:
        for status in statuses:
            await producer.send(STATUS_TOPIC, msgspec.json.encode(status), status.key, partition=0)


@pytest.fixture(scope="module", autouse=True)
def reported(console: RunningConsole, console_broker: EmbeddedBroker) -> None:
    """Two reports, five seconds apart."""
    board = next(iter(console.server.clusters.values())).statuses
    console_broker.create_topic(STATUS_TOPIC, configs=TOPIC_SETTINGS)
    now = time.time_ns() // 1_000_000
    for rows, updated in ((0, now - 5000), (5000, now)):
        asyncio.run(write(console_broker.bootstrap_servers, reports(rows, updated)))
        console.run(board.refresh())


def test_the_lineage_leads_from_sources_over_topics_and_pipelines_to_tables(web: Web) -> None:
    found = web.api("/lineage").json["lineage"]
    assert found["titles"] == [
        "Agents, connectors, mirrors",
        "Topics",
        "Pipelines and connectors",
        "Tables and topics",
    ]
    lines = {(each["source"], each["target"]): each for each in found["edges"]}
    assert lines.keys() == {
        ("shop", "clicks"),
        ("pg", "orders"),
        ("eu", "orders"),
        ("clicks", "activity"),
        ("activity", "sessions"),
        ("activity", "by_minute"),
        ("clicks", "load"),
        ("orders", "load"),
        ("load", "lake"),
    }
    assert (lines["clicks", "activity"]["rate"], lines["clicks", "activity"]["is_failed"]) == (1000, False)
    assert (lines["orders", "load"]["rate"], lines["orders", "load"]["is_failed"]) == (None, True)
    by_name = {each["name"]: each for each in found["nodes"]}
    assert by_name["shop"]["x"] < by_name["clicks"]["x"] < by_name["activity"]["x"] < by_name["lake"]["x"]
    assert all(0 <= each["y"] <= found["height"] - 44 for each in found["nodes"])


def test_the_lineage_around_one_process(web: Web) -> None:
    found = web.api("/lineage", around="activity").json["lineage"]
    assert {each["name"] for each in found["nodes"]} == {"clicks", "activity", "sessions", "by_minute"}
    assert web.get("/lineage", around="<b>").status == 200


def test_the_pipelines_page_has_their_part_of_it(web: Web) -> None:
    page = web.api("/pipelines").json
    assert page["lineage"]["titles"][0] == "Topics"
    assert "shop" not in {each["name"] for each in page["lineage"]["nodes"]}
    assert "<svg" in web.get("/pipelines").text
    assert 'class="lineage"' not in web.get("/pipelines", view="list").text


def test_topics_that_the_user_may_not_describe_have_no_link_and_no_rate(web: Web, user: Limited) -> None:
    assert web.api("/lineage").status == 403
    user.rights = {READS_STATUS}
    nodes = web.api("/lineage").json["lineage"]["nodes"]
    assert {(each["url"], each["caption"]) for each in nodes if each["kind"] == "topic"} == {("", "topic")}


def test_a_full_column_keeps_busy_and_failed_nodes(
    web: Web, console: RunningConsole, console_broker: EmbeddedBroker
) -> None:
    now = time.time_ns() // 1_000_000
    many = [
        ProcessStatus(
            "pipeline",
            f"p{at:02}",
            "failed" if at == COUNTS - 1 else "running",
            updated=now,
            parts=[StatusPart("f", reads=[f"t{at}"], tables=["all"])],
        )
        for at in range(COUNTS)
    ]
    asyncio.run(write(console_broker.bootstrap_servers, many))
    console.run(next(iter(console.server.clusters.values())).statuses.refresh())
    found = web.api("/lineage").json["lineage"]
    names = [each["name"] for each in found["nodes"]]
    assert "p39" in names
    assert sum(name.startswith("p") and name != "pg" for name in names) <= 12
    assert found["hidden"] > 0
