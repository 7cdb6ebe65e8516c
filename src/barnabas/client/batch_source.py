"""Batches of partitions from one offset to another, wherever they lie: what readers of tables and of Spark decode.

`range_fetcher` asks brokers for them, `tiering.reading.segment_fetcher` takes them out of an object store.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas.records.columnar.plan import Planned
from barnabas.common.types import TopicPartition


class FetchedRange(NamedTuple):
    """Batches of a partition whose records from `first` up to, without, `until` are wanted."""

    place: TopicPartition
    first: int
    until: int
    planned: Planned


class BatchSource(Protocol):
    """Ranges of offsets that are read to their ends, in the order of the offsets within each partition.

    while not source.is_done:
        for found in await source.next():
            for columns in decode(found.planned, wanted, found.first, found.until): ...
    """

    @property
    def is_done(self) -> bool:
        """Every range has been read to its end."""
        ...

    async def next(self) -> list[FetchedRange]:
        """What is there first; perhaps nothing. What comes after it is under way when this returns."""
        ...

    async def close(self) -> None:
        """A caller may end early: a query with a limit has enough."""
        ...
