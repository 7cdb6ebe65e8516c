"""Which topics a query reads, and at which brokers, as its plan has it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import re2
from pyspark.sql import DataFrame

from barnabas.spark.client_settings import ClientSettingError
from barnabas.spark.options import OptionError
from barnabas.spark.remote_settings import REMOTE
from barnabas.pipelines.running.flow_sessions import FORMAT, LEFT_TO_THE_FLOW
from barnabas.spark.source.settings import SourceSettings

logger = logging.getLogger(__name__)

SPARKS_OWN = "kafka"


class TopicSource(NamedTuple):
    """One source of a stream: ours, or that of Spark's own connector."""

    settings: SourceSettings
    is_left_to_the_flow: bool

    def reads(self, topic: str) -> bool:
        wanted = self.settings.subscription
        if wanted.pattern is not None:
            return re2.search(wanted.pattern, topic) is not None  # as both sources look for their topics
        return topic in wanted.topics or any(place.topic == topic for place in wanted.assigned)


def topic_sources(frame: DataFrame) -> list[TopicSource]:
    if not frame.isStreaming:
        return []
    found = [source_of(kind.lower(), options) for kind, options in _relations(frame)]
    return [source for source in found if source is not None and _is_readable(source.settings)]


def source_of(kind: str, options: Mapping[str, str]) -> TopicSource | None:
    if kind == FORMAT and REMOTE in options:
        return None  # no broker knows how far it is
    if kind == FORMAT:
        return TopicSource(SourceSettings.parse(options, streaming=True), LEFT_TO_THE_FLOW in options)
    if kind != SPARKS_OWN:
        return None
    with suppress(OptionError, ClientSettingError):  # it has options that ours does not know
        # Spark's connector commits nothing; how far behind it is can be told all the same.
        return TopicSource(
            SourceSettings.parse({**options, "commitprogress": "false"}, streaming=True), False
        )
    return None


def _is_readable(settings: SourceSettings) -> bool:
    """Patterns of Spark's connector are Java's, which knows more than RE2. (Ours refuses such a pattern by itself.)"""
    try:
        re2.compile(settings.subscription.pattern or "")
    except re2.error as error:
        logger.warning(
            "how far behind a stream is cannot be told: the pattern %r of its topics is none for RE2: %s",
            settings.subscription.pattern,
            error,
        )
        return False
    return True


def topics_read(frame: DataFrame) -> set[str]:
    """The topics of brokers that a query subscribes to by name."""
    named = [options.get("subscribe", "") for _, options in _relations(frame) if REMOTE not in options]
    return {topic.strip() for text in named for topic in text.split(",") if topic.strip()}


def _relations(frame: DataFrame) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(format, options with their names in small letters) of each source."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelationV2":
            yield leaf.sourceName(), dict(leaf.extraOptions())
        elif kind == "DataSourceV2Relation":
            yield "", dict(leaf.options())
