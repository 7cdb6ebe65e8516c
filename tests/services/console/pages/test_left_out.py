"""Values of resources that the user may not describe are in no list, sum, chart or preview."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.client.cluster import Client
from barnabas.client.groups import commit_offsets
from barnabas.common.types import TopicPartition
from barnabas.security.authz.authorizer import CLUSTER_NAME, Action, Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from tests.services.console.pages.administration import look_anew, write
from tests.services.console.pages.limited import Limited
from tests.services.console.web import RunningConsole, Web

MINE, SECRET = "orders", "payroll-secret"
GROUP, OTHER = "billing", "auditors"


def describe(kind: ResourceType, name: str) -> Action:
    return Action(Operation.DESCRIBE, kind, name)


SEES_GROUP = {describe(ResourceType.TOPIC, MINE), describe(ResourceType.GROUP, GROUP)}


@pytest.fixture(scope="module", autouse=True)
def _figures(console_broker: EmbeddedBroker, console: RunningConsole) -> None:
    bootstrap = console_broker.bootstrap_servers
    for name in (MINE, SECRET):
        console_broker.create_topic(name, partitions=1)
        write(bootstrap, name, 7)

    async def commit() -> None:
        async with Client(bootstrap) as client:
            await commit_offsets(client, GROUP, {TopicPartition(name, 0): 3 for name in (MINE, SECRET)})
            await commit_offsets(client, OTHER, {TopicPartition(SECRET, 0): 1})

    asyncio.run(commit())
    look_anew(console)


def test_a_group_shows_the_topics_that_one_may_describe(user: Limited, web: Web) -> None:
    user.rights = SEES_GROUP
    answer = web.api(f"/groups/{GROUP}")
    assert [(row["topic"], row["lag"]) for row in answer.json["partitions"]] == [(MINE, 4)]
    assert answer.json["left_out"] == 1
    page = web.get(f"/groups/{GROUP}").text
    assert "1 topic is left out" in page
    assert SECRET not in answer.text + page


def test_topic_list_hides_the_lag_of_groups_that_the_user_may_not_describe(user: Limited, web: Web) -> None:
    user.rights = SEES_GROUP
    assert [(row["name"], row["lag"]) for row in web.api("/topics").json["topics"]] == [(MINE, 4)]
    user.rights = {describe(ResourceType.TOPIC, MINE)}
    assert [(row["name"], row["lag"]) for row in web.api("/topics").json["topics"]] == [(MINE, None)]


def test_groups_are_not_found_by_a_topic_that_one_may_not_describe(user: Limited, web: Web) -> None:
    user.rights = SEES_GROUP
    assert web.api("/groups", topic=SECRET).status == 403
    assert [row["name"] for row in web.api("/groups", topic=MINE).json["groups"]] == [GROUP]


def test_offset_editor_hides_offsets_of_such_a_topic(user: Limited, web: Web) -> None:
    user.rights = SEES_GROUP
    answer = web.api(f"/groups/{GROUP}/offsets", to="earliest")
    assert [(row["topic"], row["after"]) for row in answer.json["changes"]] == [(MINE, 0)]
    assert SECRET not in answer.text
    assert web.api(f"/groups/{GROUP}/offsets", to="latest", topic=SECRET).status == 403
    assert web.api(f"/groups/{GROUP}/offsets", to="copy", value=OTHER).status == 403
    user.rights = {*SEES_GROUP, describe(ResourceType.GROUP, OTHER)}
    assert web.api(f"/groups/{GROUP}/offsets", to="copy", value=OTHER).json["changes"] == []


@pytest.mark.parametrize(
    "series",
    [
        "cluster/in",
        "broker/1/leaders",
        f"topic/{SECRET}/in",
        f"group/{OTHER}/lag",
        f"group/{GROUP}/{SECRET}/lag",
    ],
)
def test_a_curve_needs_the_right_on_all_that_it_is_of(user: Limited, web: Web, series: str) -> None:
    user.rights = SEES_GROUP
    assert web.api("/curves", series=series).status == 403


def test_overview_sums_up_the_resources_that_the_user_may_describe(user: Limited, web: Web) -> None:
    user.rights = set()
    nothing = web.api("/").json
    names = ("brokers", "topics", "partitions", "groups", "size", "records_in", "lag", "worst", "curves")
    assert not any(nothing[name] for name in names)
    user.rights = SEES_GROUP
    own = web.api("/").json
    assert (own["topics"], own["partitions"], own["groups"]) == (1, 1, 1)
    assert web.get("/").status == 200
    user.rights = {describe(ResourceType.CLUSTER, "kafka-cluster")}
    assert len(web.api("/").json["brokers"]) == 1


def test_no_sum_comes_with_the_ticks(user: Limited, web: Web) -> None:
    user.rights = SEES_GROUP
    name, tick = next(iter(web.events("/live")))
    assert (name, tick["lag"], tick["records_per_second"]) == ("tick", None, None)


def test_visible_resources_are_found_after_any_number_of_hidden_ones(
    user: Limited, web: Web, console: RunningConsole, console_broker: EmbeddedBroker
) -> None:
    for number in range(25):
        console_broker.create_topic(f"z{number}", partitions=1)
    console_broker.create_topic("zz-long-name", partitions=1)
    look_anew(console)
    user.rights = {describe(ResourceType.TOPIC, "zz-long-name")}
    assert "zz-long-name" in [place["name"] for place in web.api("/goto", q="z").json["found"]]


def test_settings_hide_addresses_of_a_cluster_that_the_user_may_not_describe(user: Limited, web: Web) -> None:
    user.rights = SEES_GROUP
    assert web.ask("GET", "/api/v1/settings").json["clusters"] == []
    user.rights = {describe(ResourceType.CLUSTER, CLUSTER_NAME)}
    assert [each["name"] for each in web.ask("GET", "/api/v1/settings").json["clusters"]] == ["default"]
