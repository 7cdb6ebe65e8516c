"""Blocking consumer: fetches and heartbeats run on the shared loop, records are decoded in the caller's thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from barnabas.client.api.arrow import COLUMNS
from barnabas.client.api.consumer_core import CallUser, ConsumerCore
from barnabas.client.api.consuming import LONG, columns_of, compiled, moment_of, names_of
from barnabas.client.api.fetched import ConsumerRecord
from barnabas.client.api.group_session import RebalanceCallback, RebalanceCallbacks
from barnabas.client.api.loop import shared_loop
from barnabas.client.api.producing import Offsets, Timestamp
from barnabas.client.groups import CommittedOffset
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.producing.transaction_manager import GroupMetadata
from barnabas.common.types import TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from barnabas.client.api.options import ConsumerOptions

T = TypeVar("T")


class BlockingConsumer:
    """Consumer; `barnabas.Consumer`. For one thread at a time.

    with Consumer("localhost:9092", topics="orders", group_id="billing") as consumer:
        for record in consumer:
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
        self._loop = shared_loop()
        self._core = ConsumerCore("Consumer", bootstrap_servers, config, options)
        self._topics = names_of(topics)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(after_error=error is not None)

    def close(self) -> None:
        """Commit (with enable_auto_commit), leave the group and close."""
        self._close(after_error=False)

    def _close(self, *, after_error: bool) -> None:
        self._run_with_callbacks(lambda call: self._core.close(call, after_error=after_error))

    # -- topics and partitions ----------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics, or all whose name matches a pattern: as a member of the group, if there is a group_id.

        Callbacks get a set of TopicPartitions; the caller's thread executes them while it waits for records.
        Partitions are lost, not revoked, if they may have another owner already.
        """
        self._topics = []
        callbacks = RebalanceCallbacks(on_assigned, on_revoked, on_lost)
        self._run(self._core.subscribe(names_of(topics), compiled(topics, pattern), callbacks))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's assignment."""
        self._run(self._core.assign(partitions))

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

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` records (default: max_poll_records); empty after `timeout` seconds."""
        core = self._core
        if rest := core.take_rest():
            return rest
        self._prepare(timeout)
        return core.take(max_records)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        core = self._core
        while True:
            yield from core.rest
            self._prepare(LONG)
            core.iterate(core.take())

    def batches(
        self, columns: Iterable[str] = COLUMNS, timeout: float | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Arrow record batches: topic, partition and the given columns.

        Ends after `timeout` seconds without records.
        """
        core = self._core
        core.rewind()
        wanted = columns_of(columns)
        while True:
            self._prepare(LONG if timeout is None else timeout)
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

    def _prepare(self, timeout: float) -> None:
        core = self._core
        if self._topics:
            self.subscribe(self._topics)
        if not core.has_records:
            self._run_with_callbacks(lambda call: core.prepare(timeout, call))

    # -- positions ----------------------------------------------------------------------------------

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self._run(self._core.seek({tp: offset}))

    def seek_to_beginning(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Seek, and return the offsets; without arguments, of all assigned partitions."""
        return self._run(self._core.seek_to(EARLIEST, partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        return self._run(self._core.seek_to(LATEST, partitions))

    def seek_to_timestamp(
        self, timestamp: Timestamp, *partitions: TopicPartition
    ) -> dict[TopicPartition, int]:
        """Seek to the first record at or after a datetime, or milliseconds since 1970; else to the end."""
        return self._run(self._core.seek_to(moment_of(timestamp), partitions))

    def position(self, tp: TopicPartition) -> int:
        """Offset of the next record."""
        return self._run(self._core.position(tp))

    def positions(self) -> dict[TopicPartition, int]:
        """Positions of the partitions that were read, for `producer.send_offsets`."""
        return self._core.current_positions()

    def lag(self) -> dict[TopicPartition, int]:
        """Records between position and end, of all assigned partitions."""
        return self._run(self._core.lag())

    def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        return self._run(self._core.ends(partitions))

    # -- commits ------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None) -> None:
        """Commit the positions, or these offsets. CommitFailedError if other members have the partitions."""
        self._run(self._core.commit(offsets))

    def commit_async(self, offsets: Offsets | None = None) -> Future[None]:
        """Start a commit; the future has its error."""
        wanted = self._core.current_positions() if offsets is None else offsets
        return self._loop.submit(self._core.commit(wanted))

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, CommittedOffset]:
        return self._run(self._core.committed(partitions))

    def group_metadata(self) -> GroupMetadata:
        """For `producer.send_offsets`."""
        return self._core.group_metadata()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(coroutine)

    def _run_with_callbacks(self, start: Callable[[CallUser], Coroutine[Any, Any, T]]) -> T:
        return self._loop.run_with_callbacks(lambda callbacks: start(callbacks.call))
