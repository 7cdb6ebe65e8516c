"""Topics as the driver sees them: on brokers, or in an object store."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import re2

from barnabas.client import Client, TopicMetadata
from barnabas.client.offsets import list_offsets
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, TopicPartition, uuid_to_text
from barnabas.spark.broker_link import BrokerLink, link_to
from barnabas.spark.errors import SourceError
from barnabas.spark.options import OptionError
from barnabas.spark.source.offsets import EARLIEST, LATEST, Offsets, OffsetSpec, partitions_text
from barnabas.spark.source.settings import SourceSettings, TopicSelection

# A pattern such as `.*` means user topics: as in Spark's connector not internal ones, and not the state of our sinks,
# which would grow with every batch that reads it, nor any other topic of ours (docs/ingest.md has the table).
OWN_TOPICS = "__barnabas_"


class AssignedPartitions(NamedTuple):
    partitions: list[TopicPartition]
    ids: dict[str, str]  # by topic; none from brokers that are too old to have them


class TopicReader(Protocol):
    def assigned(self, *, recent: bool = False) -> AssignedPartitions:
        """Partitions of the query: current, or, for frequent callers, a few seconds old."""
        ...

    def offsets_at(self, timestamps: Offsets) -> Offsets:
        """LATEST, EARLIEST or a timestamp, per partition; -1 if no record is that new."""
        ...


def topics_of(settings: SourceSettings) -> TopicReader:
    """Each imports its client only: the other one is not loaded."""
    if settings.remote is not None:
        from barnabas.spark.source.remote_topics import remote_topics

        return remote_topics(settings.remote, settings.subscription)

    return BrokerTopics(settings)


def matching(names: list[str], internal: frozenset[str] | set[str], pattern: str) -> list[str]:
    """Topics that match a pattern, sorted."""
    try:
        compiled = re2.compile(pattern)
    except re2.error as error:
        raise OptionError(
            f"option 'subscribePattern': invalid regular expression {pattern!r}: {error}"
        ) from error
    meant = [name for name in sorted(names) if name not in internal and not name.startswith(OWN_TOPICS)]
    return [name for name in meant if compiled.search(name)]


# -- Requests of the driver to brokers. Each is retried while brokers are unavailable, until the timeout


class BrokerTopics:
    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    @property
    def link(self) -> BrokerLink:
        return link_to(**self._settings.client.link)

    def assigned(self, *, recent: bool = False) -> AssignedPartitions:
        return self.link.persist(
            lambda: _assigned(self.link.client, self._settings.subscription),
            self._settings.client.total_timeout,
        )

    def offsets_at(self, timestamps: Offsets) -> Offsets:
        if not timestamps:
            return {}
        client, isolation = self.link.client, self._settings.client.fetch.isolation
        total_timeout = self._settings.client.total_timeout
        found = self.link.persist(lambda: list_offsets(client, timestamps, isolation), total_timeout)
        return {tp: answer.offset for tp, answer in found.items()}


async def _assigned(client: Client, subscription: TopicSelection) -> AssignedPartitions:
    topics = await _topics(client, subscription)
    partitions = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]
    ids = {name: uuid_to_text(topic.id) for name, topic in topics.items() if topic.id != ZERO_UUID}
    return AssignedPartitions(chosen(partitions, subscription), ids)


def chosen(partitions: list[TopicPartition], subscription: TopicSelection) -> list[TopicPartition]:
    """Those that `assign` names, or all."""
    if not subscription.assigned:
        return sorted(partitions)
    missing = set(subscription.assigned) - set(partitions)
    if missing:
        raise SourceError(f"unknown partitions {partitions_text(missing)}: see the option 'assign'")
    return sorted(subscription.assigned)


async def _topics(client: Client, subscription: TopicSelection) -> dict[str, TopicMetadata]:
    if subscription.pattern is not None:
        topics = await client.all_topics()
        internal = {name for name, topic in topics.items() if topic.internal}
        return {name: topics[name] for name in matching(list(topics), internal, subscription.pattern)}
    names = subscription.topics or sorted({tp.topic for tp in subscription.assigned})
    try:
        return await client.topics(names)
    except KafkaError as error:
        if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise SourceError(error.message) from error
        raise


# -- Offset resolver: the partitions of a query, and the offsets of a point in time --------------------


class OffsetResolver:
    """Offset lookups of one query."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._topics = topics_of(settings)

    def assigned(self, *, recent: bool = False) -> AssignedPartitions:
        return self._topics.assigned(recent=recent)

    def resolve(self, offset_spec: OffsetSpec, assigned: AssignedPartitions, *, starting: bool) -> Offsets:
        """Resolve a moment to current offsets."""
        if offset_spec.word is not None:
            return self.offsets_at(dict.fromkeys(assigned.partitions, offset_spec.word))
        if offset_spec.offsets is not None:
            _check_complete(offset_spec.offsets, assigned, "Offsets", starting)
            words = {tp: word for tp, word in offset_spec.offsets.items() if word in (LATEST, EARLIEST)}
            return {**offset_spec.offsets, **self.offsets_at(words)}
        if offset_spec.timestamps is not None:
            _check_complete(offset_spec.timestamps, assigned, "OffsetsByTimestamp", starting)
        times = offset_spec.timestamps or dict.fromkeys(assigned.partitions, offset_spec.timestamp or 0)
        return self._by_time(times, starting)

    def offsets_at(self, timestamps: Offsets) -> Offsets:
        """LATEST, EARLIEST or a timestamp, per partition; -1 if no record is that new."""
        return self._topics.offsets_at(timestamps)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.offsets_at(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition], known: Offsets) -> Offsets:
        """Log end offsets. An end before the last read is requested again: a broker may be starting."""
        found: Offsets = {}
        for attempt in range(self._settings.offset_attempts):
            if attempt:
                time.sleep(self._settings.offset_interval)
            found = self.offsets_at(dict.fromkeys(partitions, LATEST))
            if all(found[tp] >= known.get(tp, 0) for tp in found):
                break
        return found

    def _by_time(self, times: Offsets, starting: bool) -> Offsets:
        found = self.offsets_at(times)
        missing = [tp for tp, offset in found.items() if offset < 0]
        if missing and starting and not self._settings.latest_when_no_match:
            first = min(missing)
            raise SourceError(
                f"no record of {partitions_text(missing)} is as new as the timestamp {times[first]}; set the option "
                "'startingOffsetsByTimestampStrategy' to 'latest' to start at the end there"
            )
        return {**found, **self.offsets_at(dict.fromkeys(missing, LATEST))}


def _check_complete(raw_options: Offsets, assigned: AssignedPartitions, what: str, starting: bool) -> None:
    if set(raw_options) == set(assigned.partitions):
        return
    name = ("starting" if starting else "ending") + what
    raise SourceError(
        f"option {name!r} must name every partition (-1 is latest, -2 earliest): it names "
        f"{partitions_text(raw_options)}, but the partitions are {partitions_text(assigned.partitions)}"
    )
