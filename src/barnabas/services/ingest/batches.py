"""Split records into batches by partition, within the topic's size limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from barnabas.client import Client, create_if_missing
from barnabas.client.admin import BROKER_DEFAULT, setting_of_topics
from barnabas.client.producing import partition_for_key
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.records import Block, Record, encode_record, largest_encoded_size
from barnabas.records.batch import HEADER_SIZE
from barnabas.records.compression import Codec, compress

# -- Partition counts and size limits of the target topics ---------------------------------------------

USUAL_MESSAGE_BYTES = 1_048_588  # Kafka's default for max.message.bytes


class _Topic(NamedTuple):
    partitions: int
    max_bytes: int


class BatchTopics:
    """Partition count and maximum batch size of each topic, as of the start of the agent."""

    def __init__(self, topics: dict[str, _Topic]) -> None:
        self._topics = topics

    def partitions(self, topic: str) -> int:
        return self._topics[topic].partitions

    def max_bytes(self, topic: str) -> int:
        return self._topics[topic].max_bytes


async def find_topics(client: Client, names: Iterable[str]) -> BatchTopics:
    """Look up the topics; create missing ones with the broker's defaults."""
    requested = sorted(set(names))
    for name in requested:
        await _ensure(client, name)
    limits = await _limits(client, requested)
    found = await client.topics(requested)
    return BatchTopics({name: _Topic(len(found[name].partitions), limits[name]) for name in requested})


async def _ensure(client: Client, name: str) -> None:
    metadata = await client.refresh([name])
    if metadata.topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        await create_if_missing(client, name, BROKER_DEFAULT, {})


async def _limits(client: Client, names: list[str]) -> dict[str, int]:
    """Return max.message.bytes of each topic; Kafka's default if the agent may not describe configs."""
    limits = dict.fromkeys(names, USUAL_MESSAGE_BYTES)
    try:
        found = await setting_of_topics(client, names, "max.message.bytes")
    except KafkaError as error:
        if error.code not in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise
        return limits
    limits.update({name: int(value) for name, value in found.items() if value is not None})
    return limits


MAX_RECORDS = 8192
"""Maximum records per batch, as in `records/blocks`."""
USUAL_BYTES = 1024 * 1024


def largest_record(topics: BatchTopics, topic: str) -> int:
    """Maximum encoded size of one record: a batch with only this record must fit."""
    return topics.max_bytes(topic) - HEADER_SIZE


def batches_of(
    topic: str, records: Sequence[Record], topics: BatchTopics, *, codec: int = Codec.NONE, keyless: int = 0
) -> list[Block]:
    """Encode records as batches. Records without a key go to partition `keyless` modulo the partition count."""
    limit = min(largest_record(topics, topic), USUAL_BYTES)
    return [
        _block(topic, partition, group, codec)
        for partition, those in _by_partition(records, topics.partitions(topic), keyless).items()
        for group in _groups(those, limit)
    ]


def _by_partition(records: Sequence[Record], partitions: int, keyless: int) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    lists: dict[bytes | None, list[Record]] = {None: found.setdefault(keyless % partitions, [])}
    for record in records:
        those = lists.get(record.key)
        if those is None:
            assert record.key is not None
            those = lists[record.key] = found.setdefault(partition_for_key(record.key, partitions), [])
        those.append(record)
    return {partition: those for partition, those in found.items() if those}


def _groups(records: list[Record], max_bytes: int) -> Iterator[list[Record]]:
    group: list[Record] = []
    size = 0
    for record in records:
        needed = largest_encoded_size(record)
        if group and (size + needed > max_bytes or len(group) == MAX_RECORDS):
            yield group
            group, size = [], 0
        group.append(record)
        size += needed
    if group:
        yield group


def _block(topic: str, partition: int, records: list[Record], codec: int) -> Block:
    base = records[0].timestamp
    encoded = b"".join(
        [encode_record(delta, record.timestamp - base, record) for delta, record in enumerate(records)]
    )
    data = bytearray(HEADER_SIZE)
    data += compress(codec, encoded) if codec else encoded
    newest = max(record.timestamp for record in records)
    return Block(topic, partition, data, len(records), codec, base, newest)
