"""What the driver asks the brokers: which partitions there are, and which offsets belong to a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

import re2

from barnabas.client.cluster import Client
from barnabas.client.metadata import Topic
from barnabas.client.offsets import list_offsets
from barnabas.errors import ErrorCode, KafkaError
from barnabas.pipelines.broker_link import BrokerLink, link_to
from barnabas.pipelines.errors import SourceError
from barnabas.pipelines.options import OptionError
from barnabas.pipelines.sink.ledger import SINKS_TOPIC
from barnabas.pipelines.source.offsets import EARLIEST, LATEST, Moment, Offsets, partitions_text
from barnabas.pipelines.source.settings import SourceSettings, Subscription
from barnabas.types import ZERO_UUID, TopicPartition, uuid_to_text

# A pattern such as `.*` means the topics of people: as in Spark's connector not the broker's own, and not the books of
# our sinks, which would grow with every batch that reads them.
NEVER_MEANT = frozenset({SINKS_TOPIC})


class Assigned(NamedTuple):
    places: list[TopicPartition]
    ids: dict[str, str]  # by topic; none from brokers that are too old to have them


class OffsetResolver:
    """Questions of one query. Each is repeated while brokers are away, as long as the client's patience lasts."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    @property
    def link(self) -> BrokerLink:
        return link_to(**self._settings.client.link)

    def assigned(self) -> Assigned:
        return self.link.persist(
            lambda: _assigned(self.link.client, self._settings.subscription), self._patience
        )

    def resolve(self, moment: Moment, assigned: Assigned, *, starting: bool) -> Offsets:
        """The offsets that a moment means now."""
        if moment.word is not None:
            return self.offsets_at(dict.fromkeys(assigned.places, moment.word))
        if moment.offsets is not None:
            _check_complete(moment.offsets, assigned, "Offsets", starting)
            words = {place: word for place, word in moment.offsets.items() if word in (LATEST, EARLIEST)}
            return {**moment.offsets, **self.offsets_at(words)}
        if moment.timestamps is not None:
            _check_complete(moment.timestamps, assigned, "OffsetsByTimestamp", starting)
        times = moment.timestamps or dict.fromkeys(assigned.places, moment.timestamp or 0)
        return self._by_time(times, starting)

    def offsets_at(self, moments: Offsets) -> Offsets:
        """LATEST, EARLIEST or a time, for each partition; -1 where no record is that new."""
        if not moments:
            return {}
        client, isolation = self.link.client, self._settings.client.fetch.isolation
        found = self.link.persist(lambda: list_offsets(client, moments, isolation), self._patience)
        return {place: answer.offset for place, answer in found.items()}

    def earliest(self, places: Iterable[TopicPartition]) -> Offsets:
        return self.offsets_at(dict.fromkeys(places, EARLIEST))

    def latest(self, places: Iterable[TopicPartition], known: Offsets) -> Offsets:
        """The ends of the logs. An end before what was read already is asked for again: a broker may be starting."""
        found: Offsets = {}
        for attempt in range(self._settings.offset_attempts):
            if attempt:
                self.link.run(asyncio.sleep(self._settings.offset_interval))
            found = self.offsets_at(dict.fromkeys(places, LATEST))
            if all(found[place] >= known.get(place, 0) for place in found):
                break
        return found

    def _by_time(self, times: Offsets, starting: bool) -> Offsets:
        found = self.offsets_at(times)
        missing = [place for place, offset in found.items() if offset < 0]
        if missing and starting and not self._settings.latest_when_no_match:
            first = min(missing)
            raise SourceError(
                f"no record of {partitions_text(missing)} is as new as the timestamp {times[first]}; set the option "
                "'startingOffsetsByTimestampStrategy' to 'latest' to start at the end there"
            )
        return {**found, **self.offsets_at(dict.fromkeys(missing, LATEST))}

    @property
    def _patience(self) -> float:
        return self._settings.client.patience


async def _assigned(client: Client, subscription: Subscription) -> Assigned:
    topics = await _topics(client, subscription)
    places = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]
    if subscription.assigned:
        missing = set(subscription.assigned) - set(places)
        if missing:
            raise SourceError(f"there is no {partitions_text(missing)}: see the option 'assign'")
        places = list(subscription.assigned)
    ids = {name: uuid_to_text(topic.id) for name, topic in topics.items() if topic.id != ZERO_UUID}
    return Assigned(sorted(places), ids)


async def _topics(client: Client, subscription: Subscription) -> dict[str, Topic]:
    if subscription.pattern is not None:
        return matching(await client.all_topics(), subscription.pattern)
    names = subscription.topics or sorted({place.topic for place in subscription.assigned})
    try:
        return await client.topics(names)
    except KafkaError as error:
        if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise SourceError(error.message) from error
        raise


def matching(topics: dict[str, Topic], pattern: str) -> dict[str, Topic]:
    try:
        compiled = re2.compile(pattern)
    except re2.error as error:
        raise OptionError(
            f"option 'subscribePattern': {pattern!r} is no regular expression: {error}"
        ) from error
    return {
        name: topic
        for name, topic in sorted(topics.items())
        if not topic.internal and name not in NEVER_MEANT and compiled.search(name)
    }


def _check_complete(given: Offsets, assigned: Assigned, what: str, starting: bool) -> None:
    if set(given) == set(assigned.places):
        return
    name = ("starting" if starting else "ending") + what
    raise SourceError(
        f"option {name!r} must name every partition (-1 is latest, -2 earliest): it names "
        f"{partitions_text(given)}, and there are {partitions_text(assigned.places)}"
    )
