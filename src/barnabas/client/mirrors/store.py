"""State of mirrors in the target: values by key in the compacted topic `__barnabas_mirror`.

A key is a link name, a kind and further parts. On a Barnabas target it holds little
(what the mirror changed in groups and ACLs): logs and metadata hold the rest. On Apache Kafka and with `--merge`
it holds positions and the offset map, written in the same transaction as the records.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from barnabas.client.cluster import Client
from barnabas.client.compacted_table import CompactedTable, create_if_missing
from barnabas.client.producer import Producer
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import TopicPartition
from barnabas.records import Record

MIRROR_TOPIC = "__barnabas_mirror"
TOPIC_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
TOPIC_PARTITION = TopicPartition(MIRROR_TOPIC, 0)

# Kinds.
POSITION, RUNS, TOPIC, CONTROL, GROUP, ACLS = "position", "runs", "topic", "control", "group", "acls"

_SEPARATOR = "\x00"
_logger = rate_limited_logger(__name__)

Words = tuple[str, ...]


def key_of(link: str, kind: str, *words: str | int) -> bytes:
    return _SEPARATOR.join((link, kind, *map(str, words))).encode()


def words_of(key: bytes) -> Words:
    """(link, kind, ...); empty for an unknown key format."""
    try:
        return tuple(key.decode().split(_SEPARATOR))
    except UnicodeDecodeError:
        return ()


def record_of(key: bytes, value: bytes | None) -> Record:
    return Record(0, int(time.time() * 1000), key, value)


class MirrorStore:
    """Values of one link, or of all with `link=None`, up to the last read."""

    def __init__(self, client: Client, link: str | None) -> None:
        prefix = b"" if link is None else f"{link}{_SEPARATOR}".encode()
        self._client = client
        self.link = link
        self._table = CompactedTable(
            client, TOPIC_PARTITION, lambda key: key.startswith(prefix), configs=TOPIC_SETTINGS
        )
        self._written: dict[bytes, bytes | None] = {}

    async def open(self) -> None:
        await create_if_missing(self._client, MIRROR_TOPIC, 1, TOPIC_SETTINGS)
        await self.catch_up()

    async def catch_up(self) -> None:
        await self._table.catch_up()
        self._written.clear()

    def of_kind(self, kind: str) -> Iterator[tuple[Words, bytes]]:
        """(link, kind, ...) and the value."""
        for key, value in self._table.values.items():
            words = words_of(key)
            if len(words) > 1 and words[1] == kind:
                yield words, value

    def notes(self, kind: str) -> Iterator[tuple[Words, Any]]:
        """(link, kind, ...) and the JSON value; unreadable values are skipped."""
        for words, value in self.of_kind(kind):
            try:
                yield words, msgspec.json.decode(value)
            except msgspec.DecodeError:
                continue

    def get(self, kind: str, *words: str | int, value_type: Any = Any) -> Any:
        """JSON value of this type; None if missing or of another type."""
        key = key_of(self.link or "", kind, *words)
        value = self._written[key] if key in self._written else self._table.values.get(key)
        if value is None:
            return None
        try:
            return msgspec.json.decode(value, type=value_type)
        except msgspec.MsgspecError as error:
            _logger.warning(
                "a value in %s is ignored (%s): %s", MIRROR_TOPIC, " ".join((kind, *map(str, words))), error
            )
            return None

    async def put(self, values: Mapping[Words, Any]) -> None:
        """Write JSON values by (kind, ...); None deletes. Returns once acknowledged."""
        await self.write(
            (key_of(self.link or "", *words), _encoded(value)) for words, value in values.items()
        )

    async def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        async with Producer(self._client) as producer:
            for key, value in entries:
                await producer.enqueue(MIRROR_TOPIC, value, key, partition=0)
                self._written[key] = value
            await producer.flush()


def _encoded(value: Any) -> bytes | None:
    return None if value is None else msgspec.json.encode(value)


# -- States of a mirrored partition, and commands to mirrors that read `__barnabas_mirror` -------------

ALL = "*"


class LinkStatus(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    FAILED = "FAILED"
    PROMOTING = "PROMOTING"
    STOPPED = "STOPPED"


async def order(store: MirrorStore, topics: Iterable[str], state: LinkStatus) -> None:
    """Write the wanted state (PAUSED, ACTIVE, STOPPED); the mirror polls it every second."""
    await store.put({(CONTROL, topic): state.value for topic in topics})
