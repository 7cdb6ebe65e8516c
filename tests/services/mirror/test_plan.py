from __future__ import annotations

import pytest

from barnabas.client.metadata import PartitionMetadata, TopicMetadata
from barnabas.common.types import new_uuid
from barnabas.services.mirror.plan import MirrorOrigin, MirrorPlanner, MirrorRules, PlanError
from barnabas.services.mirror.settings import check_sources, parse_source


def topic(name: str, *, internal: bool = False) -> TopicMetadata:
    return TopicMetadata(name, new_uuid(), internal, {0: PartitionMetadata(0, 1, 0, (1,), (1,), ())})


def names(
    rules: MirrorRules, *topics: TopicMetadata, origins: dict[str, MirrorOrigin] | None = None
) -> list[str]:
    return [
        each.target for each in MirrorPlanner(rules, "source", "target").plan(topics, origins or {}).topics
    ]


def test_topics_keep_their_names() -> None:
    assert names(MirrorRules("a"), topic("orders"), topic("clicks")) == ["clicks", "orders"]


def test_alias_may_precede_them() -> None:
    assert names(MirrorRules("eu", rename="{alias}.{topic}"), topic("orders")) == ["eu.orders"]


def test_internal_topics_are_excluded_from_every_pattern() -> None:
    books = [
        "__barnabas_mirror",
        "__barnabas_status",
        "a.checkpoints.internal",
        "mm2-offset-syncs.b.internal",
    ]
    left_out = [topic("__consumer_offsets", internal=True), *map(topic, books)]
    assert names(MirrorRules("a", topics=".*"), topic("orders"), *left_out) == ["orders"]


def test_the_pattern_is_about_the_whole_name() -> None:
    assert names(MirrorRules("a", topics="orders"), topic("orders"), topic("orders2")) == ["orders"]


def test_a_topic_that_came_from_the_target_is_refused_as_a_loop() -> None:
    origins = {
        "back": MirrorOrigin(("target",)),
        "far": MirrorOrigin(("target", "elsewhere")),
        "fine": MirrorOrigin(("other",)),
    }
    topics = [topic(name) for name in ("back", "far", "fine", "own")]
    plan = MirrorPlanner(MirrorRules("a"), "source", "target").plan(topics, origins)
    assert [each.target for each in plan.topics] == ["fine", "own"]
    assert plan.topics[0].path == ("other", "source")
    assert "a loop" in plan.refused["back"]
    assert "target > elsewhere > source" in plan.refused["far"]


def test_a_cluster_is_no_mirror_of_itself() -> None:
    with pytest.raises(PlanError, match="same cluster"):
        MirrorPlanner(MirrorRules("a"), "one", "one")


@pytest.mark.parametrize(
    "rename", ["{alias}", "{topic}{x}", "{0}{topic}", "a/{topic}", "{topic}{", "a b {topic}"]
)
def test_names_that_no_topic_can_have_are_refused(rename: str) -> None:
    with pytest.raises(PlanError):
        MirrorPlanner(MirrorRules("a", rename=rename), "source", "target")


def test_a_name_that_becomes_too_long_is_refused_alone() -> None:
    plan = MirrorPlanner(MirrorRules("alias", rename="{alias}.{topic}"), "s", "t").plan(
        [topic("x" * 249), topic("y")], {}
    )
    assert [each.target for each in plan.topics] == ["alias.y"]
    assert "at most 249" in plan.refused["x" * 249]


def test_a_source_is_called_by_its_alias_or_its_host() -> None:
    assert parse_source("eu=10.0.0.1:9092,10.0.0.2:9092").alias == "eu"
    assert parse_source("kafka-1:9092").alias == "kafka-1"
    for wrong in ("=a:9092", "a b=c:9092", "host:port"):
        with pytest.raises(PlanError):
            parse_source(wrong)
    with pytest.raises(PlanError, match="aliases"):
        check_sources([parse_source("a:1"), parse_source("a:2")])
