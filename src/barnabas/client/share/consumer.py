"""Consumer in a share group.

    async with ShareConsumer(client, "workers", ["jobs"]) as consumer:
        for taken in await consumer.take(10):
            consumer.answer(taken, AcknowledgeType.ACCEPT)

Acknowledgements are sent with the next `take`, or at once with `flush`. A record that is neither acknowledged nor
renewed before its lock expires is delivered to another member.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import Self

from barnabas.client.cluster import AsyncClosable, Client
from barnabas.client.errors import ClientError, is_retriable
from barnabas.client.share.acquired import AcknowledgeType, AcquiredRecord, Answers, Refusal
from barnabas.client.share.membership import ShareGroupMembership
from barnabas.client.share.session import ClientShareSession, ShareFetchResult, lost
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff, Deadline
from barnabas.common.types import TopicPartition

MAX_WAIT = 0.5
ENDED_SESSION = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

Pending = dict[TopicPartition, Answers]


class ShareConsumer(AsyncClosable):
    def __init__(self, client: Client, group: str, topics: Iterable[str], member_id: str = "") -> None:
        self.client = client
        self.member = ShareGroupMembership(client, group, topics, member_id)
        self.refusals: list[Refusal] = []
        """Rejected acknowledgements; the caller may read and clear them."""
        self._sessions: dict[int, ClientShareSession] = {}
        self._pending: Pending = {}
        self._spare: list[AcquiredRecord] = []  # surplus records, because several leaders returned some
        self._heartbeats: asyncio.Task[None] | None = None
        self._backoff = Backoff()

    async def __aenter__(self) -> Self:
        await self.member.join()
        self._heartbeats = asyncio.create_task(self.member.keep_alive())
        return self

    async def close(self) -> None:
        """Send pending acknowledgements, release unacknowledged records and leave the group."""
        await self.stop()
        by_leader = await self._pending_by_leader()
        for leader, session in self._sessions.items():
            with contextlib.suppress(ClientError, KafkaError):
                self.refusals += await session.close(by_leader.get(leader, {}))
        self._sessions.clear()
        await self.member.leave()

    async def stop(self) -> None:
        """Stop without leaving, as if this process had crashed."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
            self._heartbeats = None

    async def take(self, most: int = 500, timeout_seconds: float = 1.0) -> list[AcquiredRecord]:
        """Up to `most` records as soon as any are available; empty on timeout."""
        deadline = Deadline(timeout_seconds)
        taken, self._spare = self._spare[:most], self._spare[most:]
        wait = 0.0
        while not taken:
            taken = await self._take_from_all(most, wait)
            if taken or deadline.passed:
                break
            wait = min(deadline.remaining, MAX_WAIT)
            if not self.member.partitions:
                await self._wait_for_partitions(wait)
        self._spare += taken[most:]
        return taken[:most]

    async def _wait_for_partitions(self, timeout_seconds: float) -> None:
        self.member.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.member.changed.wait(), timeout_seconds)

    def answer(self, taken: AcquiredRecord, answer: AcknowledgeType) -> None:
        """Acknowledge a record; sent with the next request."""
        self._pending.setdefault(taken.tp, {})[taken.offset] = answer

    async def renew(self, taken: Iterable[AcquiredRecord]) -> None:
        """Renew the locks of records. Also sends pending acknowledgements."""
        for one in taken:
            self.answer(one, AcknowledgeType.RENEW)
        await self.flush()

    async def flush(self) -> list[Refusal]:
        """Send all acknowledgements now; returns and records the rejected ones."""
        refusals: list[Refusal] = []
        for leader, answers in (await self._pending_by_leader()).items():
            try:
                refusals += await self._session(leader).acknowledge(answers)
            except (ClientError, KafkaError):
                refusals += lost(answers)
        self.refusals += refusals
        return refusals

    # -- leaders ------------------------------------------------------------------------------------

    async def _take_from_all(self, most: int, wait: float) -> list[AcquiredRecord]:
        if self.member.failure is not None:
            raise self.member.failure
        partitions = await self._partitions_by_leader()
        answers = await self._pending_by_leader()
        leaders = sorted(partitions.keys() | answers.keys() | self._sessions.keys())
        share = math.ceil(most / max(len(partitions), 1))
        fetches = [
            self._fetch(leader, partitions.get(leader, frozenset()), answers.get(leader, {}), share, wait)
            for leader in leaders
        ]
        return [taken for part in await asyncio.gather(*fetches) for taken in part]

    async def _fetch(
        self,
        leader: int,
        partitions: frozenset[TopicPartition],
        answers: Mapping[TopicPartition, Answers],
        most: int,
        wait: float,
    ) -> list[AcquiredRecord]:
        try:
            fetched = await self._session(leader).fetch(partitions, answers, most, wait)
        except (ClientError, KafkaError) as error:
            self.refusals += lost(answers)
            await self._recover(error)
            return []
        return await self._note(fetched)

    async def _note(self, fetched: ShareFetchResult) -> list[AcquiredRecord]:
        self.refusals += fetched.refusals
        for tp, gaps in fetched.gaps.items():
            self._pending.setdefault(tp, {}).update(gaps)
        for error in fetched.errors:
            await self._recover(error)
        if not fetched.errors:
            self._backoff.reset()
        return fetched.taken

    async def _recover(self, error: Exception) -> None:
        """Back off with fresh metadata if the error is retriable."""
        session_ended = isinstance(error, KafkaError) and error.code in ENDED_SESSION
        if not session_ended and not is_retriable(error):
            raise error
        await asyncio.sleep(min(self._backoff.next_delay(), MAX_WAIT))
        await self.client.refresh_quietly(self.member.topics)

    def _session(self, leader: int) -> ClientShareSession:
        session = self._sessions.get(leader)
        if session is None:
            member = self.member
            session = ClientShareSession(self.client, leader, member.group, member.member_id)
            self._sessions[leader] = session
        return session

    async def _partitions_by_leader(self) -> dict[int, frozenset[TopicPartition]]:
        grouped: dict[int, set[TopicPartition]] = {}
        for tp in self.member.partitions:
            leader = await self._leader(tp)
            if leader is not None:
                grouped.setdefault(leader, set()).add(tp)
        return {leader: frozenset(partitions) for leader, partitions in grouped.items()}

    async def _pending_by_leader(self) -> dict[int, Pending]:
        """Remove and return pending acknowledgements by leader; partitions without a leader stay pending."""
        pending, self._pending = self._pending, {}
        grouped: dict[int, Pending] = {}
        for tp, answers in pending.items():
            leader = await self._leader(tp)
            if leader is None:
                self._pending[tp] = answers
            else:
                grouped.setdefault(leader, {})[tp] = answers
        return grouped

    async def _leader(self, tp: TopicPartition) -> int | None:
        try:
            return await self.client.leader(tp)
        except (ClientError, KafkaError):
            await self.client.refresh_quietly([tp.topic])
            return None
