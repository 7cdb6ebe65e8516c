"""Metrics by topic."""

from __future__ import annotations

from barnabas.metrics.registry import Registry
from barnabas.metrics.topics import TopicMetrics

NAME = "kafka_server_brokertopicmetrics_bytesin_total"


def test_each_topic_has_its_count_and_there_is_a_sum() -> None:
    registry = Registry()
    topics = TopicMetrics(registry)
    topics.of("a").bytes_in.value += 10
    topics.of("b").bytes_in.value += 5
    values = registry.snapshot()
    assert [values[NAME], values[NAME + "{topic=a}"], values[NAME + "{topic=b}"]] == [15, 10, 5]


def test_a_deleted_topic_is_no_longer_shown_but_the_sum_never_falls() -> None:
    registry = Registry()
    topics = TopicMetrics(registry)
    topics.of("a").bytes_in.value += 10
    topics.remove("a")
    topics.remove("never seen")
    values = registry.snapshot()
    assert values[NAME] == 10
    assert NAME + "{topic=a}" not in values


def test_internal_topics_are_known_by_name() -> None:
    topics = TopicMetrics(Registry())
    assert topics.of("__consumer_offsets").is_internal
    assert not topics.of("orders").is_internal
