"""Broker checks of the runner before a start: the broker is reachable and the topics exist."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import re2
from pyspark.sql import DataFrame

from barnabas.client import CannotConnectError, Client, SecurityError, admin
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.pipelines.connection import security_of
from barnabas.pipelines.definitions.files import BOOTSTRAP, PipelineFiles
from barnabas.pipelines.definitions.settings import RequiredTopic
from barnabas.pipelines.running.sessions import FORMAT, LEFT_TO_THE_FLOW
from barnabas.security.authn import SecuritySettingError
from barnabas.spark import BrokerLink, ClientSettingError, OptionError, PipelineError
from barnabas.spark.remote_settings import REMOTE
from barnabas.spark.source.settings import SourceSettings

# -- Topics and brokers that a query reads, taken from its plan ----------------------------------------

logger = logging.getLogger(__name__)

SPARKS_OWN = "kafka"


class StreamTopics(NamedTuple):
    """One source of a stream: ours, or Spark's Kafka connector."""

    settings: SourceSettings
    is_left_to_the_flow: bool

    def reads(self, topic: str) -> bool:
        wanted = self.settings.subscription
        if wanted.pattern is not None:
            return re2.search(wanted.pattern, topic) is not None  # same matching as in both sources
        return topic in wanted.topics or any(tp.topic == topic for tp in wanted.assigned)


def topic_sources(frame: DataFrame) -> list[StreamTopics]:
    if not frame.isStreaming:
        return []
    found = [source_of(kind.lower(), options) for kind, options in relations(frame)]
    return [source for source in found if source is not None and _is_readable(source.settings)]


def source_of(kind: str, options: Mapping[str, str]) -> StreamTopics | None:
    if kind == FORMAT and REMOTE in options:
        return None  # its progress is not measured in offsets of a broker
    if kind == FORMAT:
        return StreamTopics(SourceSettings.parse(options, streaming=True), LEFT_TO_THE_FLOW in options)
    if kind != SPARKS_OWN:
        return None
    with suppress(OptionError, ClientSettingError):  # options that our source does not support
        # Spark's connector commits nothing, but its lag can be computed.
        return StreamTopics(
            SourceSettings.parse({**options, "commitprogress": "false"}, streaming=True), False
        )
    return None


def _is_readable(settings: SourceSettings) -> bool:
    """True if RE2 accepts the pattern: Spark's connector uses Java patterns. (Our source rejects others itself.)"""
    try:
        re2.compile(settings.subscription.pattern or "")
    except re2.error as error:
        logger.warning(
            "the lag of a stream cannot be computed: its topic pattern %r is not valid in RE2: %s",
            settings.subscription.pattern,
            error,
        )
        return False
    return True


def topics_read(frame: DataFrame) -> set[str]:
    """Return the broker topics that a query subscribes to by name."""
    named = [options.get("subscribe", "") for _, options in relations(frame) if REMOTE not in options]
    return {topic.strip() for text in named for topic in text.split(",") if topic.strip()}


def relations(frame: DataFrame) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield (format, options with lower-case names) of each source."""
    for leaf in leaves(frame):
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            yield leaf.sourceName(), dict(leaf.extraOptions())
        else:
            yield "", dict(leaf.options())


def leaves(frame: DataFrame) -> Iterator[Any]:
    """Yield Spark's nodes of the sources."""
    found = frame._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(found.size()):
        leaf = found.apply(index)
        if leaf.getClass().getSimpleName() in ("StreamingRelationV2", "DataSourceV2Relation"):
            yield leaf


TIMEOUT = 15.0  # seconds per request including retries, before anything is started


class BrokerChecks:
    """Broker checks over one connection. Not thread-safe."""

    def __init__(self, bootstrap: str, security: ClientSecurity = PLAINTEXT) -> None:
        self._bootstrap = bootstrap
        try:
            self._link = BrokerLink(
                bootstrap, client_id="barnabas-pipeline", total_timeout=TIMEOUT, security=security
            )
        except SecuritySettingError as error:
            raise PipelineError(f"barnabas.{error}.") from None
        except ValueError as error:
            raise PipelineError(
                f"barnabas.bootstrap.servers={bootstrap} is not a list of HOST:PORT.", error
            ) from None

    def close(self) -> None:
        self._link.close()

    def require_topics(self, names: Iterable[str]) -> None:
        """Raise PipelineError if the broker does not respond or a topic does not exist."""
        try:
            known = self._link.run(self._link.client.all_topics())
        except CannotConnectError as error:
            raise PipelineError(
                f"No broker answers at {self._bootstrap}. `barnabas serve` starts one; elsewhere, say where with "
                "`--set barnabas.bootstrap.servers=HOST:PORT`.",
                error,
            ) from None
        except SecurityError as error:
            raise PipelineError(f"The brokers reject the pipeline: {error}.") from None
        for name in sorted(names):
            if name not in known:
                raise PipelineError(
                    f"The pipeline reads the topic {name}, which does not exist at {self._bootstrap}: "
                    f"`barnabas topics create {name}` creates it, `barnabas topics list` lists all topics."
                )

    def make_missing(self, wanted: Iterable[RequiredTopic]) -> None:
        self._link.run(_make_missing(self._link.client, list(wanted)))


def require_broker(files: PipelineFiles) -> None:
    """Raise PipelineError if the broker does not respond; a check that does not need Spark."""
    if BOOTSTRAP not in files.configuration:
        return
    checks = BrokerChecks(files.bootstrap, security_of(files.configuration))
    try:
        checks.require_topics(())
    finally:
        checks.close()


def make_topics(files: PipelineFiles) -> None:
    """Create missing result topics, without Spark."""
    if not files.settings.topics:
        return
    checks = BrokerChecks(files.bootstrap, security_of(files.configuration))
    try:
        checks.require_topics(())
        checks.make_missing(files.settings.topics)
    finally:
        checks.close()


async def _make_missing(client: Client, wanted: list[RequiredTopic]) -> None:
    known = await client.all_topics()
    for topic in wanted:
        if topic.name in known:
            continue
        try:
            await admin.create_topic(
                client, topic.name, partitions=topic.partitions, configs=dict(topic.settings)
            )
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # created by another client in the meantime
                raise
