"""Positions, fetched records and commits of a consumer, in both forms.

*Position* is the offset after the records that were handed out. Records count as processed when the caller asks for
more: commits never include records that it may still work on, unless it commits them itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import length_hint

from barnabas.client.api.errors import CommitFailedError, NoOffsetError
from barnabas.client.api.fetched import ConsumerRecord, Deserializers, FetchedRecords
from barnabas.client.api.group_session import GroupSession, Partitions
from barnabas.client.api.options import CheckedOptions
from barnabas.client.api.serializers import registry_deserializer
from barnabas.client.consuming.membership import FORGOTTEN
from barnabas.client.fetcher import Fetcher
from barnabas.client.groups import CommittedOffset, member_offsets, send_commit
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets
from barnabas.client.producing.transaction_manager import GroupMetadata
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition

STEP = 0.2  # seconds between two checks of the group, while waiting for records or for a new epoch
STALE_EPOCH_TRIES = 10
RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
NOT_OWNED = FORGOTTEN | {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS}

Positions = dict[TopicPartition, int]


class ConsumerPositions:
    """Base of ConsumerCore, which fetches and follows the group."""

    def __init__(self, read: CheckedOptions) -> None:
        self.client = read.client()
        self.settings = read.fetch()
        self.group = read.text("group_id")
        self.max_records = int(read.number("max_poll_records", 500, 1))
        self.positions: Positions = {}
        self.session: GroupSession | None = None
        self.last_poll = time.monotonic()
        self._is_expelled = False  # from the group: the caller did not poll for max.poll.interval.ms
        self._reset = RESETS[read.choice("auto_offset_reset", "latest", RESETS)]
        self._deserializers, self._resources = deserializers(read), read.resources
        self._fetcher = Fetcher(self.client, {}, self.settings, out_of_range=self._reset)
        self._chunks: deque[FetchedRecords] = deque()
        self._assigned: Partitions = frozenset()
        self._handed: list[ConsumerRecord] = []
        self.rest: Iterator[ConsumerRecord] = iter(())
        self._before: Positions = {}  # positions before the records that were handed out last
        self._committed: Positions = {}

    # -- records ------------------------------------------------------------------------------------

    def take(self, limit: int | None = None) -> list[ConsumerRecord]:
        """Records that were fetched, decoded now."""
        self.last_poll = time.monotonic()
        self._before = {}
        maximum = limit or self.max_records
        taken: list[ConsumerRecord] = []
        while self._chunks and len(taken) < maximum:
            chunk = self._chunks[0]
            self._before.setdefault(chunk.tp, chunk.position)
            try:
                taken += chunk.take(maximum - len(taken))
            except Exception:
                if not taken:
                    raise
                break  # raised again by the next call
            self.positions[chunk.tp] = chunk.position
            if chunk.is_done:
                self._chunks.popleft()
            elif self._deserializers is not None and len(taken) < maximum:
                break
        return taken

    def iterate(self, records: list[ConsumerRecord]) -> None:
        """Hand out records one by one: `rest` is the iterator."""
        self._handed, self.rest = records, iter(records)
        self._before = {}

    def take_rest(self) -> list[ConsumerRecord]:
        """Return the records that were not iterated over, for another `poll`."""
        rest = [] if self._is_expelled else self._unprocessed()
        self.iterate([])
        self._before = _first_offsets(rest)
        return rest

    def rewind(self) -> None:
        """Fetch again what was not iterated over."""
        for tp, offset in _first_offsets(self._unprocessed()).items():
            self._set_position(tp, offset)

    def _unprocessed(self, *, with_current: bool = False) -> list[ConsumerRecord]:
        first = len(self._handed) - length_hint(self.rest)
        return self._handed[max(first - with_current, 0) :]

    def _put_back(self) -> None:
        """After an error of the caller: what it was handed last is not processed."""
        self.positions |= self._before | _first_offsets(self._unprocessed(with_current=True))
        self.iterate([])

    def next_chunk(self) -> FetchedRecords | None:
        """For batches: the oldest fetched partition."""
        self.last_poll = time.monotonic()
        while self._chunks and self._chunks[0].is_done:
            self._chunks.popleft()
        return self._chunks[0] if self._chunks else None

    def note_rows(self, tp: TopicPartition, before: int, after: int) -> None:
        self._before = {tp: before}
        self.positions[tp] = after

    # -- positions ----------------------------------------------------------------------------------

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        for tp, offset in offsets.items():
            self.check_assigned(tp)
            if offset < 0:
                raise ValueError(f"offset {offset} of {tp} is negative: use seek_to_beginning or seek_to_end")
            self._set_position(tp, offset)

    async def seek_to(self, timestamp: int, partitions: Collection[TopicPartition]) -> Positions:
        """Seek to a timestamp, or to EARLIEST or LATEST; the end if no record is that new."""
        wanted = frozenset(partitions) or self._assigned
        for tp in wanted:
            self.check_assigned(tp)
        found = await list_offsets(self.client, dict.fromkeys(wanted, timestamp), self.settings.isolation)
        offsets = {tp: answer.offset for tp, answer in found.items()}
        late = [tp for tp, offset in offsets.items() if offset < 0]
        if late:
            ends = await list_offsets(self.client, dict.fromkeys(late, LATEST), self.settings.isolation)
            offsets |= {tp: answer.offset for tp, answer in ends.items()}
        await self.seek(offsets)
        return offsets

    async def position(self, tp: TopicPartition) -> int:
        self.check_assigned(tp)
        if tp not in self.positions:
            await self._find_positions({tp})
        return self.current_positions()[tp]

    async def ends(self, partitions: Collection[TopicPartition]) -> Positions:
        wanted = frozenset(partitions) or self._assigned
        found = await list_offsets(self.client, dict.fromkeys(wanted, LATEST), self.settings.isolation)
        return {tp: answer.offset for tp, answer in found.items()}

    async def lag(self) -> Positions:
        """Records between position and end, of all assigned partitions."""
        ends = await self.ends(())
        return {tp: max(0, end - await self.position(tp)) for tp, end in ends.items()}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self.check_assigned(tp)
            self._fetcher.paused.add(tp)
            if tp in self.positions:
                self._set_position(tp, self.current_positions()[tp])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetcher.paused.difference_update(partitions)

    def check_assigned(self, tp: TopicPartition) -> None:
        if tp not in self._assigned:
            raise ValueError(f"{tp} is not assigned to this consumer")

    def _set_position(self, tp: TopicPartition, offset: int) -> None:
        self._chunks = deque(chunk for chunk in self._chunks if chunk.tp != tp)
        self._before.pop(tp, None)
        if length_hint(self.rest):
            self.iterate([record for record in self._unprocessed() if record.tp != tp])
        self.positions[tp] = offset
        self._fetcher.seek(tp, offset)

    def current_positions(self) -> Positions:
        return self.positions | _first_offsets(self._unprocessed())

    async def _find_positions(self, partitions: Collection[TopicPartition]) -> None:
        found: Positions = {}
        if self.group is not None:
            committed = await self.committed(partitions)
            found = {tp: commit.offset for tp, commit in committed.items()}
            self._committed |= found
        unknown = frozenset(partitions) - found.keys()
        if unknown and self._reset is None:
            raise NoOffsetError(
                f'no offset is committed for {", ".join(map(str, sorted(unknown)))}, and auto_offset_reset is "none": '
                "call seek()"
            )
        if unknown and self._reset is not None:
            answers = await list_offsets(
                self.client, dict.fromkeys(unknown, self._reset), self.settings.isolation
            )
            found |= {tp: answer.offset for tp, answer in answers.items()}
        for tp, offset in found.items():
            if tp in self._assigned and tp not in self.positions:
                self._set_position(tp, offset)

    # -- commits ------------------------------------------------------------------------------------

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        return await member_offsets(self.client, self._group(), partitions or self._assigned)

    async def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commit positions, or these offsets."""
        group = self._group()
        new = dict(self._changed_positions() if offsets is None else offsets)
        if not new:
            return
        names = ", ".join(map(str, sorted(new)))
        if self.session is not None and not self.session.is_member:
            raise CommitFailedError(
                f"this consumer is not a member of group {group} now, and offsets of {names} were not committed: "
                "poll again"
            )
        for attempt in range(STALE_EPOCH_TRIES):
            member = self.group_metadata()
            try:
                await send_commit(self.client, group, new, member.member_id, member.epoch)
                break
            except KafkaError as error:
                if error.code == ErrorCode.STALE_MEMBER_EPOCH and attempt < STALE_EPOCH_TRIES - 1:
                    await asyncio.sleep(STEP)  # a heartbeat is about to learn the new epoch
                elif error.code in NOT_OWNED:
                    raise CommitFailedError(
                        f"group {group} rebalances ({error.code.name}), and offsets of {names} were not committed: "
                        "poll again. Another member may read the records again"
                    ) from error
                else:
                    raise
        self._committed |= {
            tp: commit.offset if isinstance(commit, CommittedOffset) else commit for tp, commit in new.items()
        }

    def group_metadata(self) -> GroupMetadata:
        self._group()
        if self.session is not None:
            return self.session.metadata
        return GroupMetadata(self._group())

    def _changed_positions(self) -> Positions:
        return {tp: at for tp, at in self.current_positions().items() if self._committed.get(tp) != at}

    def _group(self) -> str:
        if self.group is None:
            raise ValueError('commits need a group: Consumer(..., group_id="billing")')
        return self.group


def _first_offsets(records: Iterable[ConsumerRecord]) -> Positions:
    first: Positions = {}
    for record in records:
        first.setdefault(record.tp, record.offset)
    return first


def deserializers(read: CheckedOptions) -> Deserializers | None:
    key, value = read.function("key_deserializer"), read.function("value_deserializer")
    url = read.text("schema_registry_url")
    if url is not None and value is None:
        value = registry_deserializer(url, read.resources)
    return Deserializers(key, value) if key or value else None
