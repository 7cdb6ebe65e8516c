"""Pipelines, connectors and agents, from real reports in `__barnabas_status`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from barnabas.client.cluster import Client
from barnabas.client.producer import Producer
from barnabas.client.status import STATUS_TOPIC, TOPIC_SETTINGS, ProcessStatus, StatusPart
from barnabas.pipelines.running.progress import FlowProgress
from barnabas.pipelines.running.status import as_reported, new_status
from barnabas.security.authz.authorizer import Action, Operation
from barnabas.services.console.pages.flows import curve_of
from barnabas.services.console.users import AnonymousConsoleUser
from barnabas.testing import EmbeddedBroker
from tests.services.console.web import RunningConsole, Web

HOSTILE = "<img src=x onerror=alert(1)> \"'"
PAGES = ("/pipelines", "/pipelines/shop", "/connectors", "/connectors/orders", "/agents")


def reports(rows: int, updated: int) -> list[ProcessStatus]:
    flow = FlowProgress(
        "clean",
        rows=rows,
        late=7,
        lag=12,
        state_rows=5,
        state_bytes=4096,
        groups=["shop.clean"],
        watermark="2026-11-17T12:00:00.000Z",
        broken={"orders: has an id": 3, "orders: has a price": 0},
    )
    status = new_status("shop", "running", [flow])
    status.alarms = ["too slow"]
    connector = ProcessStatus(
        "connector", "orders", "failed", error="no such table", counts={"rows": 9, "rejected": 1}
    )
    connector.parts = [StatusPart("orders to a table", "failed", HOSTILE, 4)]
    agent = ProcessStatus("agent", HOSTILE, "running", host=HOSTILE)
    agent.parts = [StatusPart("lines", counts={"records": rows}, kind="files", topics=["app.logs"], lag=100)]
    return [
        msgspec.structs.replace(each, updated=updated) for each in (as_reported(status), connector, agent)
    ]


async def write(bootstrap: str, statuses: list[ProcessStatus]) -> None:
    async with Client(bootstrap) as client, Producer(client) as producer:
        for status in statuses:
            await producer.send(STATUS_TOPIC, msgspec.json.encode(status), status.key, partition=0)


@pytest.fixture(scope="module")
def reported(console: RunningConsole, console_broker: EmbeddedBroker) -> None:
    """Two reports, five seconds apart."""
    board = next(iter(console.server.clusters.values())).statuses
    console_broker.create_topic(STATUS_TOPIC, configs=TOPIC_SETTINGS)
    now = time.time_ns() // 1_000_000
    for rows, updated in ((1000, now - 5000), (2000, now)):
        asyncio.run(write(console_broker.bootstrap_servers, reports(rows, updated)))
        console.run(board.refresh())


pytestmark = pytest.mark.usefixtures("reported")


def test_a_pipeline_is_shown_with_flows_rules_alarms_and_late_rows(web: Web) -> None:
    work = web.api("/pipelines/shop").json["work"]
    (flow,) = work["flows"]
    assert (work["rate"], work["lag"], work["late"], work["broken"], work["alarms"]) == (
        200,
        12,
        7,
        3,
        ["too slow"],
    )
    assert (flow["rows"], flow["groups"]) == (2000, ["shop.clean"])
    assert flow["broken"] == {"orders: has an id": 3, "orders: has a price": 0}
    text = web.get("/pipelines/shop").text
    for message in ("too slow", "orders: has a price", "2026-11-17T12:00:00.000Z", "/groups/shop.clean"):
        assert message in text


def test_lists_show_the_state_of_each_entry(web: Web) -> None:
    assert [work["name"] for work in web.api("/pipelines").json["works"]] == ["shop"]
    assert web.api("/pipelines", find="other").json["works"] == []
    (connector,) = web.api("/connectors").json["works"]
    assert (connector["state"], connector["counts"]["rejected"], connector["lag"]) == ("failed", 1, 4)
    (agent,) = web.api("/agents").json["works"]
    assert (agent["flows"][0]["rate"], agent["flows"][0]["topics"]) == (200, ["app.logs"])


@pytest.mark.parametrize("path", PAGES)
def test_reports_of_clients_are_escaped_on_the_page(web: Web, path: str) -> None:
    page = web.get(path)
    assert page.status == 200
    assert "<img" not in page.text
    assert "style=" not in page.text


def test_one_that_never_reported_is_not_found(web: Web) -> None:
    assert web.get("/pipelines/nobody").status == 404
    assert "has reported" in web.api("/connectors/nobody").json["error"]


class Limited(AnonymousConsoleUser):
    def __init__(self, *operations: Operation) -> None:
        self._operations = operations

    async def allows(self, action: Action) -> bool:
        return action.name == STATUS_TOPIC and action.operation in self._operations


def visit_as(console: RunningConsole, monkeypatch: pytest.MonkeyPatch, *operations: Operation) -> None:
    async def user(*_: Any) -> AnonymousConsoleUser:
        return Limited(*operations)

    monkeypatch.setattr(console.server.app.gate, "user", user)


@pytest.mark.parametrize("path", PAGES)
def test_without_read_on_the_topic_of_reports_pages_are_refused(
    web: Web, console: RunningConsole, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    visit_as(console, monkeypatch, Operation.DESCRIBE)
    answer = web.api(path)
    assert answer.status == 403
    assert f"READ on the topic {STATUS_TOPIC}" in answer.json["error"]


def test_a_report_is_forgotten_with_write_and_only_when_it_has_ended(
    web: Web, console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit_as(console, monkeypatch, Operation.READ)
    assert web.change("/reports/connector/orders/forget").status == 403
    visit_as(console, monkeypatch, Operation.READ, Operation.WRITE)
    assert web.change("/reports/pipeline/shop/forget").status == 409
    assert web.change("/reports/other/shop/forget").status == 400
    assert web.change("/reports/connector/orders/forget").status == 200
    assert web.api("/connectors").json["works"] == []


def test_a_curve_has_a_gap_where_nothing_is_known() -> None:
    drawn = curve_of([(0, 0.0), (100, 10.0), (200, None), (300, 5.0)])
    assert drawn is not None
    assert drawn.path == "M0.0 60.0 L100.0 2.0 M300.0 31.0"
    assert curve_of([(0, 1.0), (1, None)]) is None
