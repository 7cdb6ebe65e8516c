"""What the driver asks the brokers. Each question is repeated while they are away, as long as the patience lasts."""

from __future__ import annotations

from barnabas.client.cluster import Client
from barnabas.client.metadata import Topic
from barnabas.client.offsets import list_offsets
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.spark.broker_link import BrokerLink, link_to
from barnabas.spark.errors import SourceError
from barnabas.spark.source.offsets import Offsets, partitions_text
from barnabas.spark.source.settings import SourceSettings, Subscription
from barnabas.spark.source.topics import Assigned, matching
from barnabas.common.types import ZERO_UUID, TopicPartition, uuid_to_text


class BrokerTopics:
    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    @property
    def link(self) -> BrokerLink:
        return link_to(**self._settings.client.link)

    def assigned(self, *, recent: bool = False) -> Assigned:
        return self.link.persist(
            lambda: _assigned(self.link.client, self._settings.subscription), self._settings.client.patience
        )

    def offsets_at(self, moments: Offsets) -> Offsets:
        if not moments:
            return {}
        client, isolation = self.link.client, self._settings.client.fetch.isolation
        patience = self._settings.client.patience
        found = self.link.persist(lambda: list_offsets(client, moments, isolation), patience)
        return {place: answer.offset for place, answer in found.items()}


async def _assigned(client: Client, subscription: Subscription) -> Assigned:
    topics = await _topics(client, subscription)
    places = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]
    ids = {name: uuid_to_text(topic.id) for name, topic in topics.items() if topic.id != ZERO_UUID}
    return Assigned(chosen(places, subscription), ids)


def chosen(places: list[TopicPartition], subscription: Subscription) -> list[TopicPartition]:
    """Those that `assign` names, or all."""
    if not subscription.assigned:
        return sorted(places)
    missing = set(subscription.assigned) - set(places)
    if missing:
        raise SourceError(f"there is no {partitions_text(missing)}: see the option 'assign'")
    return sorted(subscription.assigned)


async def _topics(client: Client, subscription: Subscription) -> dict[str, Topic]:
    if subscription.pattern is not None:
        topics = await client.all_topics()
        internal = {name for name, topic in topics.items() if topic.internal}
        return {name: topics[name] for name in matching(list(topics), internal, subscription.pattern)}
    names = subscription.topics or sorted({place.topic for place in subscription.assigned})
    try:
        return await client.topics(names)
    except KafkaError as error:
        if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise SourceError(error.message) from error
        raise
