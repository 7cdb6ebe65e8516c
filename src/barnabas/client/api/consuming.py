"""Consumer for asyncio."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.client.api.arrow import COLUMNS
from barnabas.client.api.consumer_core import ConsumerCore
from barnabas.client.api.fetched import ConsumerRecord
from barnabas.client.api.group_session import RebalanceCallback, RebalanceCallbacks
from barnabas.client.api.producing import Offsets, Timestamp
from barnabas.client.groups import CommittedOffset
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.producing.transaction_manager import GroupMetadata
from barnabas.common.types import TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from barnabas.client.api.options import ConsumerOptions

LONG = 3600.0  # seconds of one wait of an iterator


class AsyncConsumer:
    """Consumer for asyncio.

    async with AsyncConsumer("localhost:9092", topics="orders", group_id="billing") as consumer:
        async for record in consumer:
            print(record.offset, record.value)

    Records count as processed when the next one is asked for: after a crash they are read again, never skipped.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        topics: str | Iterable[str] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._core = ConsumerCore("AsyncConsumer", bootstrap_servers, config, options)
        self._topics = names_of(topics)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.close(call_user, after_error=error is not None)

    async def close(self) -> None:
        """Commit (with enable_auto_commit), leave the group and close."""
        await self._core.close(call_user, after_error=False)

    # -- topics and partitions ----------------------------------------------------------------------

    async def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics, or all whose name matches a pattern: as a member of the group, if there is a group_id.

        Callbacks, functions or coroutine functions, get a set of TopicPartitions while the caller waits for records.
        Partitions are lost, not revoked, if they may have another owner already.
        """
        self._topics = []
        callbacks = RebalanceCallbacks(on_assigned, on_revoked, on_lost)
        await self._core.subscribe(names_of(topics), compiled(topics, pattern), callbacks)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's assignment."""
        await self._core.assign(partitions)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._core.assignment

    def pause(self, *partitions: TopicPartition) -> None:
        self._core.pause(partitions or self._core.assignment)

    def resume(self, *partitions: TopicPartition) -> None:
        self._core.resume(partitions or self._core.assignment)

    @property
    def paused(self) -> set[TopicPartition]:
        return self._core.paused

    # -- records ------------------------------------------------------------------------------------

    async def poll(
        self,
        timeout: float = 1.0,  # noqa: ASYNC109  # an empty result, not an exception
        max_records: int | None = None,
    ) -> list[ConsumerRecord]:
        """Up to `max_records` records (default: max_poll_records); empty after `timeout` seconds."""
        core = self._core
        if rest := core.take_rest():
            return rest
        await self._prepare(timeout)
        return core.take(max_records)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[ConsumerRecord]:
        core = self._core
        while True:
            for record in core.rest:
                yield record
            await self._prepare(LONG)
            core.iterate(core.take())

    async def batches(
        self,
        columns: Iterable[str] = COLUMNS,
        timeout: float | None = None,  # noqa: ASYNC109  # ends the iteration
    ) -> AsyncIterator[pa.RecordBatch]:
        """Arrow record batches: topic, partition and the given columns.

        Ends after `timeout` seconds without records.
        """
        core = self._core
        core.rewind()
        wanted = columns_of(columns)
        while True:
            await self._prepare(LONG if timeout is None else timeout)
            chunk = core.next_chunk()
            if chunk is None:
                if timeout is not None:
                    return
                continue
            before = chunk.position
            for rows, after in chunk.take_rows(wanted):
                core.note_rows(chunk.tp, before, after)
                before = after
                yield rows
            core.note_rows(chunk.tp, before, chunk.position)

    async def _prepare(self, seconds: float) -> None:
        core = self._core
        if self._topics:
            await self.subscribe(self._topics)
        if not core.has_records:
            await core.prepare(seconds, call_user)

    # -- positions ----------------------------------------------------------------------------------

    async def seek(self, tp: TopicPartition, offset: int) -> None:
        await self._core.seek({tp: offset})

    async def seek_to_beginning(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Seek, and return the offsets; without arguments, of all assigned partitions."""
        return await self._core.seek_to(EARLIEST, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        return await self._core.seek_to(LATEST, partitions)

    async def seek_to_timestamp(
        self, timestamp: Timestamp, *partitions: TopicPartition
    ) -> dict[TopicPartition, int]:
        """Seek to the first record at or after a datetime, or milliseconds since 1970; else to the end."""
        return await self._core.seek_to(moment_of(timestamp), partitions)

    async def position(self, tp: TopicPartition) -> int:
        """Offset of the next record."""
        return await self._core.position(tp)

    async def lag(self) -> dict[TopicPartition, int]:
        """Records between position and end, of all assigned partitions."""
        return await self._core.lag()

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        return await self._core.ends(partitions)

    # -- commits ------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit the positions, or these offsets. CommitFailedError if other members have the partitions."""
        await self._core.commit(offsets)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, CommittedOffset]:
        return await self._core.committed(partitions)

    def group_metadata(self) -> GroupMetadata:
        """For `producer.send_offsets`."""
        return self._core.group_metadata()

    def positions(self) -> dict[TopicPartition, int]:
        """Positions of the partitions that were read, for `producer.send_offsets`."""
        return self._core.current_positions()


async def call_user(callback: RebalanceCallback, partitions: set[TopicPartition]) -> None:
    result = callback(partitions)
    if inspect.isawaitable(result):
        await result


def names_of(topics: str | Iterable[str]) -> list[str]:
    return [topics] if isinstance(topics, str) else list(topics)


def compiled(topics: str | Iterable[str], pattern: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    if bool(topics) == bool(pattern):
        raise ValueError("subscribe() needs either topics or a pattern")
    return re.compile(pattern) if pattern is not None else None


def columns_of(columns: Iterable[str]) -> tuple[str, ...]:
    wanted = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in wanted:
        if name not in COLUMNS:
            raise ValueError(f"unknown column {name!r}; known: {', '.join(COLUMNS)}")
    return wanted if "offset" in wanted else ("offset", *wanted)


def moment_of(timestamp: Timestamp) -> int:
    time_text = int(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp
    if time_text < 0:
        raise ValueError(f"timestamp {time_text} is before 1970")
    return time_text
