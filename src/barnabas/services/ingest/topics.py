"""What an agent knows of the topics it writes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.admin import BROKER_DEFAULT, setting_of_topics
from barnabas.client.cluster import Client
from barnabas.client.settled_table import create_if_missing
from barnabas.common.errors import ErrorCode, KafkaError

USUAL_MESSAGE_BYTES = 1_048_588  # Kafka's default of max.message.bytes


class _Topic(NamedTuple):
    partitions: int
    most_bytes: int


class Topics:
    """Partitions and the largest batch of each topic, as they were when the agent began."""

    def __init__(self, topics: dict[str, _Topic]) -> None:
        self._topics = topics

    def partitions(self, topic: str) -> int:
        return self._topics[topic].partitions

    def most_bytes(self, topic: str) -> int:
        return self._topics[topic].most_bytes


async def find_topics(client: Client, names: Iterable[str]) -> Topics:
    """Topics that are missing are created, with the broker's defaults."""
    wanted = sorted(set(names))
    for name in wanted:
        await _ensure(client, name)
    limits = await _limits(client, wanted)
    found = await client.topics(wanted)
    return Topics({name: _Topic(len(found[name].partitions), limits[name]) for name in wanted})


async def _ensure(client: Client, name: str) -> None:
    metadata = await client.refresh([name])
    if metadata.topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        await create_if_missing(client, name, BROKER_DEFAULT, {})


async def _limits(client: Client, names: list[str]) -> dict[str, int]:
    """Who may not ask is held to Kafka's default."""
    limits = dict.fromkeys(names, USUAL_MESSAGE_BYTES)
    try:
        found = await setting_of_topics(client, names, "max.message.bytes")
    except KafkaError as error:
        if error.code not in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise
        return limits
    limits.update({name: int(value) for name, value in found.items() if value is not None})
    return limits
