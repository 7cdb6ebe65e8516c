"""Group consumer: reads the assigned partitions from the committed offsets and commits consumed records."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence

from barnabas.client.cluster import AsyncClosable, Client
from barnabas.client.consumer import Consumer
from barnabas.client.consuming.membership import FORGOTTEN, GroupMembership, choose_membership
from barnabas.client.fetching import FetchSettings
from barnabas.client.groups import committed_offsets, send_commit
from barnabas.client.offsets import EARLIEST, LATEST, Start, resolve_start
from barnabas.client.opening import ConsumedRecord
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Deadline
from barnabas.common.types import TopicPartition

COMMIT_SECONDS = 5.0  # Kafka's auto.commit.interval.ms
NOT_OWNED = FORGOTTEN | {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS}


class GroupConsumer(AsyncClosable):
    """`start` is for partitions without a committed offset. Records of a `poll` count as consumed at the next one."""

    def __init__(
        self, client: Client, group: str, topics: Iterable[str], start: Start, settings: FetchSettings
    ) -> None:
        self.client = client
        self.group = group
        self._topics = list(topics)
        self._start = start
        reset = EARLIEST if start.kind == "beginning" else LATEST
        self._consumer = Consumer(client, {}, settings, out_of_range=reset)
        self._committed: dict[TopicPartition, int] = {}
        self._due = Deadline(COMMIT_SECONDS)
        self._member: GroupMembership | None = None
        self._heartbeats: asyncio.Task[None] | None = None
        self._joined = False  # an assignment was received, possibly an empty one

    async def open(self) -> None:
        self._member = await choose_membership(self.client, self.group, self._topics)
        await self._member.join()
        self._heartbeats = asyncio.create_task(self._member.keep_alive())

    async def __aenter__(self) -> GroupConsumer:
        await self.open()
        return self

    async def close(self) -> None:
        """Commit and leave the group."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
        try:
            if self._member is not None and self._member.failure is None:
                await self.commit()
        finally:
            await self._consumer.close()
            if self._member is not None:
                await self._member.leave()

    @property
    def partitions(self) -> set[TopicPartition]:
        return self._consumer.partitions

    @property
    def is_settled(self) -> bool:
        """True when the fetched partitions match the assignment."""
        assert self._member is not None
        return self._joined and self._member.partitions == self._consumer.partitions

    def position(self, tp: TopicPartition) -> int:
        return self._consumer.position(tp)

    def give_back(self, records: Sequence[ConsumedRecord]) -> None:
        """Return unconsumed records of the last poll; they are read again."""
        for record in reversed(records):
            self._consumer.seek(record.tp, record.offset)

    async def poll(self, timeout_seconds: float = 1.0) -> list[ConsumedRecord]:
        assert self._member is not None
        if self._due.passed:
            await self.commit()
        if self._member.changed.is_set():
            await self._reconcile(self._member)
        if self._consumer.partitions:
            return await self._consumer.poll(timeout_seconds)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._member.changed.wait(), timeout_seconds)
        return []

    async def commit(self) -> None:
        """Commit changed positions. A partition reassigned meanwhile may have records read twice."""
        member = self._member
        assert member is not None
        self._due = Deadline(COMMIT_SECONDS)
        found = {tp: self._consumer.position(tp) for tp in self._consumer.partitions}
        new = {tp: offset for tp, offset in found.items() if self._committed.get(tp) != offset}
        if not new:
            return
        try:
            await send_commit(self.client, self.group, new, member.member_id, member.epoch)
            self._committed |= new
        except KafkaError as error:
            if error.code not in NOT_OWNED:
                raise

    async def _reconcile(self, member: GroupMembership) -> None:
        member.changed.clear()
        if member.failure is not None:
            raise member.failure
        lost = self._consumer.partitions - member.partitions
        if lost:
            await self.commit()
        for tp in lost:
            self._consumer.remove(tp)
            self._committed.pop(tp, None)
        await member.settle(frozenset(self._consumer.partitions))
        await self._begin(member.partitions - self._consumer.partitions)
        self._joined = True

    async def _begin(self, partitions: frozenset[TopicPartition]) -> None:
        if not partitions:
            return
        committed = await committed_offsets(self.client, self.group)
        found = {tp: committed[tp].offset for tp in partitions if tp in committed}
        self._committed |= found
        unknown = sorted(partitions - found.keys())
        if unknown:
            found |= await resolve_start(self.client, unknown, self._start)
        for tp, offset in found.items():
            self._consumer.seek(tp, offset)
