"""Locations of topics: brokers, a data folder or a bucket. A read sees a consistent snapshot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from barnabas.client import BatchSource
from barnabas.client.offsets import OffsetRange
from barnabas.common.types import TopicPartition


class Bounds(NamedTuple):
    """Offsets that a read of a partition sees: from `first` up to `until`, exclusive."""

    first: int
    until: int


class TimeBound(NamedTuple):
    """Every record below `offset` is older than `timestamp` (milliseconds)."""

    offset: int
    timestamp: int


Snapshot = Mapping[TopicPartition, Bounds]


class TableSource(Protocol):
    """Opened for one read, on the event loop of that read."""

    async def snapshot(self, topic: str) -> Snapshot:
        """Committed records only: ends are last stable offsets, requested once."""
        ...

    async def since(self, snapshot: Snapshot, timestamp: int) -> dict[TopicPartition, int]:
        """For each partition, an offset below which every record is older."""
        ...

    async def time_bounds(self, snapshot: Snapshot, limit: int) -> dict[TopicPartition, list[TimeBound]]:
        """Up to `limit` bounds per partition, ascending."""
        ...

    def read(self, ranges: Iterable[OffsetRange]) -> BatchSource:
        """At most one range per partition."""
        ...

    async def topics(self) -> list[str]: ...

    async def close(self) -> None: ...


OpenSource = Callable[[], Awaitable[TableSource]]
