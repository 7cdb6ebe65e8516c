"""The page of alarms, with hostile names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.services.console.exporter.watch import ClusterFigures
from barnabas.services.console.users import AnonymousConsoleUser
from tests.services.console.exporter.snapshots import broker, commits, group, place, snapshot, topic
from tests.services.console.web import RunningConsole, Web

HOSTILE = '<script>alert(1)</script>"&'
LATE = commits("orders", [(0, 1, 9, 900.0)])
TROUBLE = ClusterFigures(
    snapshot(
        [broker(1)],
        [topic("orders", [place(index, -1, (), (1,)) for index in range(30)], [9] * 30)],
        [group(HOSTILE, LATE), group("secret", LATE)],
    )
)
HOUR_AGO = 1_000_000


class Limited(AnonymousConsoleUser):
    """Sees one topic, and neither groups nor the cluster."""

    name = "limited"

    async def allows(self, action: Action) -> bool:
        return False

    async def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        return {name for name in names if (resource_type, name) == (ResourceType.TOPIC, "orders")}


@pytest.fixture
def troubled(console: RunningConsole) -> Iterator[Web]:
    """The sampler is stopped, so that the trouble stays."""

    async def trouble() -> None:
        cluster = console.server.clusters["default"]
        await cluster.watch.close()
        await cluster.sampler.close()
        cluster.sampler.snapshot = TROUBLE.snapshot
        cluster.alarms.update(TROUBLE, HOUR_AGO)
        cluster.alarms.update(TROUBLE, HOUR_AGO + 3_600_000)

    console.run(trouble())
    with console.web() as web:
        yield web


def test_problems_are_shown_by_alarm_the_worst_first(troubled: Web) -> None:
    page = troubled.api("/alarms").json
    assert [row["name"] for row in page["firing"]][:2] == ["PartitionOffline", "UnderReplicated"]
    offline = page["firing"][0]
    assert (offline["severity"], offline["since_ms"]) == ("critical", HOUR_AGO)
    assert (len(offline["findings"]), offline["more"]) == (20, 10)
    assert offline["findings"][0]["url"] == "/c/default/topics/orders"
    assert {rule["name"] for rule in page["rules"]} > {"GroupLate", "CertificateExpires"}


def test_short_problems_are_listed_and_prevent_an_all_clear(console: RunningConsole, troubled: Web) -> None:
    async def begin_again() -> None:
        alarms = console.server.clusters["default"].alarms
        alarms.update(ClusterFigures(snapshot([broker(1)], [], [])), HOUR_AGO)
        alarms.update(TROUBLE, HOUR_AGO)

    console.run(begin_again())
    page = troubled.api("/alarms").json
    assert page["firing"] == []
    assert page["pending"] >= len(page["soon"]) > 0
    assert page["soon"][0]["fires_in"] <= page["soon"][-1]["fires_in"]
    shown = troubled.get("/alarms").text
    assert "Nothing is wrong" not in shown
    assert "not yet for as long as the rule says" in shown


def test_names_from_clients_are_text(troubled: Web) -> None:
    text = troubled.get("/alarms").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "/c/default/groups/%3Cscript%3E" in text


def test_an_alarm_is_silenced_by_the_address(troubled: Web) -> None:
    page = troubled.api("/alarms", silence="PartitionOffline, GroupLate").json
    assert not {"PartitionOffline", "GroupLate"} & {row["name"] for row in page["firing"]}
    assert page["silenced"][0] == {"name": "GroupLate", "unsilence": "?silence=PartitionOffline"}
    assert "?silence=GroupLate" in troubled.get("/alarms").text
    refused = troubled.api("/alarms", silence="Nonsense")
    assert (refused.status, refused.json["field"]) == (400, "silence")


def test_resources_without_describe_are_hidden(
    troubled: Web, console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def limited(head: object, match: object) -> Limited:
        return Limited()

    monkeypatch.setattr(console.server.gate, "user", limited)
    shown = troubled.api("/alarms").json
    assert {row["name"] for row in shown["firing"]} == {"PartitionOffline", "UnderReplicated"}
    assert "secret" not in troubled.get("/alarms").text
    assert troubled.get("/metrics").status == 403
    assert troubled.ask("GET", "/metrics").status == 403
