"""Groups of all types on both brokers, compared with Kafka's tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.testing import EmbeddedBroker
from tests.services.console.pages import group_cluster as cluster
from tests.services.console.pages.group_cluster import CONSUMER_GROUPS, SHARE_GROUPS, Rows, told_by_kafka
from tests.services.console.web import Answer, RunningConsole, Web, running_console
from tests.support.kafka.broker import ApacheKafka
from tests.support.waiting import eventually

KAFKA_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module", params=["barnabas", pytest.param("apache-kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "barnabas":
        with EmbeddedBroker() as broker:
            yield _filled(broker.bootstrap_servers)
    else:
        folder = tmp_path_factory.mktemp("kafka")
        with ApacheKafka(folder, heap="256m", settings=KAFKA_SETTINGS) as kafka:
            yield _filled(kafka.bootstrap_servers)


def _filled(bootstrap: str) -> str:
    cluster.fill(bootstrap)
    cluster.share("queue", bootstrap)
    return bootstrap


@pytest.fixture(scope="module")
def shown(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_console(bootstrap, tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def pages(shown: RunningConsole) -> Iterator[Web]:
    with shown.web() as client:
        yield client


def group_of(shown: RunningConsole, pages: Web, name: str, fits: Callable[[Any], object]) -> Any:
    """The page of a group as JSON, of fresh figures, when it is as it should be."""
    sampler = next(iter(shown.server.clusters.values())).sampler

    def refreshed() -> Answer:
        shown.run(sampler.refresh())
        return pages.api(f"/groups/{name}")

    return eventually(refreshed, lambda answer: answer.status == 200 and fits(answer.json)).json


def rows_of(page: Any) -> Rows:
    return {(row["topic"], row["partition"]): (row["committed"], row["lag"]) for row in page["partitions"]}


def test_classic_group_has_the_same_lag_as_in_kafkas_tool(
    shown: RunningConsole, pages: Web, bootstrap: str
) -> None:
    page = group_of(shown, pages, "other", lambda page: page["lag"])

    assert rows_of(page) == told_by_kafka(CONSUMER_GROUPS, bootstrap, "other")
    assert page["type"] == "classic"
    assert page["lag"] == 21
    assert 0 < page["lag_seconds"] < 600
    assert {row["partition"] for row in page["partitions"]} == {0, 2}  # no commit, no lag
    assert "other" in pages.get("/groups/other").text


def test_group_of_the_new_protocol_shows_its_member_and_assignment(
    shown: RunningConsole, pages: Web, bootstrap: str
) -> None:
    with cluster.member_of("modern", bootstrap):
        page = group_of(shown, pages, "modern", lambda page: page["members"]["members"] and page["lag"])
        output = told_by_kafka(CONSUMER_GROUPS, bootstrap, "modern")
        refused = pages.api("/groups/modern/offsets", to="earliest").json

    (member,) = page["members"]["members"]
    assert (page["type"], page["state"]) == ("consumer", "Stable")
    assert member["assigned"] == [{"topic": "orders", "partitions": [0, 1, 2]}]
    assert {row["member"] for row in page["partitions"]} == {member["id"]}
    assert rows_of(page) == output
    assert "The group has 1 member" in refused["problem"]


def test_share_group_has_the_same_lag_as_in_kafkas_tool_and_can_be_moved(
    shown: RunningConsole, pages: Web, bootstrap: str
) -> None:
    page = group_of(shown, pages, "queue", lambda page: page["lag"])
    assert rows_of(page) == told_by_kafka(SHARE_GROUPS, bootstrap, "queue", "START-OFFSET", "LAG")
    assert (page["type"], page["state"], page["lag"]) == ("share", "Empty", 6)

    plan = pages.api("/groups/queue/offsets", to="number", value="3").json
    done = pages.change("/groups/queue/offsets", changes=json.loads(plan["plan"]))

    assert (plan["problem"], done.status) == ("", 200)
    output = told_by_kafka(SHARE_GROUPS, bootstrap, "queue", "START-OFFSET", "LAG")
    assert [start for start, _ in output.values()] == [3, 3, 3]
    moved = group_of(shown, pages, "queue", lambda page: page["lag"] != 6)
    assert rows_of(moved) == output


def test_streams_group_shows_its_tasks_and_the_lag_of_its_commits(
    shown: RunningConsole, pages: Web, bootstrap: str
) -> None:
    cluster.stream("flow", bootstrap)
    page = group_of(shown, pages, "flow", lambda page: page["lag"] and page["members"]["members"])

    (member,) = page["members"]["members"]
    (row,) = page["partitions"]
    assert page["type"] == "streams"
    assert member["tasks"] == ["active 0: 0, 1, 2"]
    assert (row["partition"], row["committed"], row["lag"]) == (0, 7, row["end"] - 7)


def test_offsets_move_as_in_the_preview_and_kafkas_tool_sees_them(
    shown: RunningConsole, pages: Web, bootstrap: str
) -> None:
    group_of(shown, pages, "billing", lambda page: page["lag"])
    plan = pages.api("/groups/billing/offsets", to="shift", value="-3").json
    form = pages.post("/groups/billing/offsets", plan=plan["plan"])

    assert [(row["before"], row["after"], row["problem"]) for row in plan["changes"]] == [
        (4, 1, ""),
        (10, 7, ""),
    ]
    assert form.status == 303
    output = told_by_kafka(CONSUMER_GROUPS, bootstrap, "billing")
    assert {place[1]: committed for place, (committed, _) in output.items()} == {0: 1, 1: 7}


@pytest.mark.parametrize(
    ("to", "value", "after"),
    [
        ("earliest", "", {0: 0, 1: 0}),
        ("latest", "", {0: 12, 1: 12}),
        ("time", "2020-01-01T00:00", {0: 0, 1: 0}),
        ("time", "2100-01-01T00:00", {0: 12, 1: 12}),
        ("number", "5", {0: 5, 1: 5}),
        ("copy", "other", {0: 1, 2: 2}),
    ],
)
def test_each_way_of_setting_offsets_is_shown_before_anything_is_changed(
    shown: RunningConsole, pages: Web, to: str, value: str, after: dict[int, int]
) -> None:
    group_of(shown, pages, "billing", lambda page: page["lag"])
    plan = pages.api("/groups/billing/offsets", to=to, value=value).json

    assert {row["partition"]: row["after"] for row in plan["changes"]} == after
    assert plan["problem"] == ""
    assert "Apply" in pages.get("/groups/billing/offsets", to=to, value=value).text


def test_a_topic_in_which_the_group_has_no_offsets_can_be_given_some(
    shown: RunningConsole, pages: Web
) -> None:
    group_of(shown, pages, "billing", lambda page: page["lag"])
    plan = pages.api("/groups/billing/offsets", to="latest", topic="orders", partition=2).json

    (row,) = plan["changes"]
    assert (row["partition"], row["before"], row["after"]) == (2, None, 12)


def test_offsets_outside_of_the_log_are_refused_in_the_preview_and_when_applied(
    shown: RunningConsole, pages: Web
) -> None:
    before = rows_of(group_of(shown, pages, "billing", lambda page: page["lag"]))
    plan = pages.api("/groups/billing/offsets", to="number", value="99").json
    applied = pages.change("/groups/billing/offsets", changes=json.loads(plan["plan"]))

    assert "outside of the log" in plan["problem"]
    assert "which has 0 to 12" in plan["changes"][0]["problem"]
    assert "Apply" not in pages.get("/groups/billing/offsets", to="number", value="99").text
    assert (applied.status, applied.json["field"]) == (400, "changes")
    assert rows_of(group_of(shown, pages, "billing", lambda page: page["lag"])) == before


def test_group_that_moved_since_the_preview_is_unchanged_and_the_difference_is_reported(
    shown: RunningConsole, pages: Web, bootstrap: str
) -> None:
    group_of(shown, pages, "billing", lambda page: page["lag"])
    plan = pages.api("/groups/billing/offsets", to="earliest").json
    cluster.commit_as("billing", bootstrap, {0: 6})
    answer = pages.change("/groups/billing/offsets", changes=json.loads(plan["plan"]))

    before = next(row["before"] for row in plan["changes"] if row["partition"] == 0)
    assert answer.status == 409
    assert f"orders-0 was at {before} and is at 6" in answer.json["error"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"to": "nowhere"}, "to"),
        ({"to": "time", "value": "yesterday"}, "value"),
        ({"to": "time", "value": "9" * 30}, "value"),
        ({"to": "number", "value": "ten"}, "value"),
        ({"to": "number", "value": "-1"}, "value"),
        ({"to": "copy"}, "value"),
    ],
)
def test_impossible_plans_are_reported_with_the_field(
    shown: RunningConsole, pages: Web, query: dict[str, str], field: str
) -> None:
    group_of(shown, pages, "billing", lambda page: page["lag"])
    answer = pages.api("/groups/billing/offsets", **query)

    assert (answer.status, answer.json["field"]) == (400, field)


def test_the_list_has_all_groups_and_can_be_filtered_by_type_name_and_topic(
    shown: RunningConsole, pages: Web
) -> None:
    group_of(shown, pages, "queue", lambda page: True)
    names = {row["name"]: row["type"] for row in pages.api("/groups").json["groups"]}

    assert names.items() >= {"billing": "classic", "queue": "share"}.items()
    assert [row["name"] for row in pages.api("/groups", type="share").json["groups"]] == ["queue"]
    assert [row["name"] for row in pages.api("/groups", q="BILL").json["groups"]] == ["billing"]
    assert pages.api("/groups", topic="empty").json["groups"] == []
    assert pages.api("/groups", sort="colour").json["field"] == "sort"
    assert pages.api("/groups/nobody").status == 404


def test_why_a_group_was_rebalanced_is_shown(shown: RunningConsole, pages: Web, bootstrap: str) -> None:
    with cluster.member_of("rebalanced", bootstrap):
        found = pages.api("/groups/rebalanced/rebalances", hours=1).json["rebalances"]

    assert found
    assert all(row["why"] for row in found)
    assert pages.api("/groups/rebalanced/rebalances", hours=0).status == 400
