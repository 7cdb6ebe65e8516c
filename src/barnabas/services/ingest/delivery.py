"""Commit records and the source positions they advance to in one transaction.

An agent uses the transactional id `ingest.<agent>`. `begin` initializes it, which aborts the open transaction of an
earlier process, fences that process and makes the stored positions final. After any failure the agent starts over from
the stored positions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from barnabas.client import Client, CompactedTable, create_if_missing
from barnabas.client.producing import RecordBatch, TransactionalProducer, UnsealedBatch, partition_for_key
from barnabas.common.types import TopicPartition
from barnabas.records import Record

POSITIONS_TOPIC = "__barnabas_ingest"
POSITIONS_PARTITIONS = 8
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # A starting agent reads the part that is not compacted yet: at most two segments.
    "segment.bytes": str(8 * 1024 * 1024),
}
TRANSACTION_TIMEOUT_MS = 60_000  # Kafka's default for transaction.timeout.ms
_SEPARATOR = "\x00"


@dataclass(slots=True)
class Collected:
    """Batches and positions of one source for one transaction."""

    batches: list[UnsealedBatch] = field(default_factory=list)
    positions: dict[str, bytes | None] = field(default_factory=dict)
    """By the source's key; None deletes the position."""
    records: int = 0
    bytes: int = 0
    """Bytes read from the source."""
    encoded: int = 0
    """Size of the encoded batches, which add a key and headers to each record; 0: not measured."""
    committed: Callable[[], None] | None = None
    """Callback after the commit."""
    unfinished: bool = False
    """The source has more data, even if this call returned no records."""

    @property
    def is_empty(self) -> bool:
        return not self.batches and not self.positions

    @property
    def size(self) -> int:
        """Approximate size in memory and on the wire."""
        return max(self.bytes, self.encoded)

    def add(self, other: Collected) -> None:
        """Merge the next piece of the same source into this transaction."""
        self.batches += other.batches
        self.positions.update(other.positions)
        self.records += other.records
        self.bytes += other.bytes
        self.encoded += other.encoded
        self.unfinished = other.unfinished
        self.committed = _both(self.committed, other.committed)


def _both(first: Callable[[], None] | None, second: Callable[[], None] | None) -> Callable[[], None] | None:
    if first is None or second is None:
        return first or second

    def call() -> None:
        first()
        second()

    return call


class Delivery:
    """Transactions of one agent from InitProducerId to the first failure."""

    def __init__(self, client: Client, agent: str) -> None:
        self._client = client
        self._agent = agent
        self._tp = TopicPartition(POSITIONS_TOPIC, 0)
        self._producer: TransactionalProducer | None = None

    async def begin(self) -> dict[str, dict[str, bytes]]:
        """Fence earlier processes and return the stored positions by source and by the source's key."""
        await create_if_missing(self._client, POSITIONS_TOPIC, POSITIONS_PARTITIONS, TOPIC_SETTINGS)
        self._producer = await TransactionalProducer.take(
            self._client, f"ingest.{self._agent}", TRANSACTION_TIMEOUT_MS
        )
        count = len((await self._client.topics([POSITIONS_TOPIC]))[POSITIONS_TOPIC].partitions)
        self._tp = TopicPartition(POSITIONS_TOPIC, partition_for_key(self._agent.encode(), count))
        prefix = f"{self._agent}{_SEPARATOR}".encode()
        table = CompactedTable(
            self._client, self._tp, lambda key: key.startswith(prefix), configs=TOPIC_SETTINGS
        )
        await table.catch_up()
        return _by_source(table.values)

    async def commit(self, collected: Mapping[str, Collected]) -> None:
        """Commit batches and positions, given by source name, in one transaction."""
        assert self._producer is not None, "begin first"
        batches = [batch for each in collected.values() for batch in each.batches]
        now = int(time.time() * 1000)
        positions = [
            Record(0, now, _SEPARATOR.join((self._agent, source, key)).encode(), value)
            for source, each in collected.items()
            for key, value in each.positions.items()
        ]
        await self._producer.send(batches)
        if positions:  # last, so that they are never written without the preceding records
            await self._producer.send([RecordBatch(self._tp, positions)])
        await self._producer.commit()


def _by_source(values: Mapping[bytes, bytes]) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for name, value in values.items():
        _, source, key = name.decode().split(_SEPARATOR, 2)
        found.setdefault(source, {})[key] = value
    return found
