"""Records and the positions behind them, in one transaction: both are there or neither is.

An agent has the transactional id `ingest.<agent>`. To begin is to initialize it: that aborts what an earlier process of
the agent had open, shuts that process out, and settles which positions count. Whatever goes wrong afterwards, the agent
begins again from the positions that are stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from barnabas.client import Client, CompactedTable, create_if_missing
from barnabas.client.producing import RecordBatch, Sealable, TransactionalProducer, partition_for_key
from barnabas.common.types import TopicPartition
from barnabas.records import Record

POSITIONS_TOPIC = "__barnabas_ingest"
POSITIONS_PARTITIONS = 8
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # An agent that starts reads what was not compacted yet: not more than two of these.
    "segment.bytes": str(8 * 1024 * 1024),
}
TRANSACTION_TIMEOUT_MS = 60_000  # Kafka's default of transaction.timeout.ms
_SEPARATOR = "\x00"


@dataclass(slots=True)
class Collected:
    """What a source has for one transaction."""

    batches: list[Sealable] = field(default_factory=list)
    positions: dict[str, bytes | None] = field(default_factory=dict)
    """By the source's own key; None: forgotten."""
    records: int = 0
    bytes: int = 0
    """That were read."""
    encoded: int = 0
    """Bytes of the batches, with a key and headers for each record, if they are more."""
    committed: Callable[[], None] | None = None
    """Called when the transaction is committed."""
    unfinished: bool = False
    """There is more to look at, even if nothing came of it yet."""

    @property
    def is_empty(self) -> bool:
        return not self.batches and not self.positions

    @property
    def size(self) -> int:
        """In memory, and on the wire."""
        return max(self.bytes, self.encoded)

    def add(self, other: Collected) -> None:
        """What the source had next, for the same transaction."""
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
    """One term of an agent: from the initialization of its id to the first thing that goes wrong."""

    def __init__(self, client: Client, agent: str) -> None:
        self._client = client
        self._agent = agent
        self._tp = TopicPartition(POSITIONS_TOPIC, 0)
        self._producer: TransactionalProducer | None = None

    async def begin(self) -> dict[str, dict[str, bytes]]:
        """The stored positions, by source and by the source's own key."""
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
        """What the sources have, by their names. Afterwards it is in the topics, each record once."""
        assert self._producer is not None, "begin first"
        batches = [batch for each in collected.values() for batch in each.batches]
        now = int(time.time() * 1000)
        positions = [
            Record(0, now, _SEPARATOR.join((self._agent, source, key)).encode(), value)
            for source, each in collected.items()
            for key, value in each.positions.items()
        ]
        await self._producer.send(batches)
        if positions:  # last: they must not be there without all records before them
            await self._producer.send([RecordBatch(self._tp, positions)])
        await self._producer.commit()


def _by_source(values: Mapping[bytes, bytes]) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for name, value in values.items():
        _, source, key = name.decode().split(_SEPARATOR, 2)
        found.setdefault(source, {})[key] = value
    return found
