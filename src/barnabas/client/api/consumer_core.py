"""Common part of both forms of the consumer: subscriptions, assignment, fetching.

Coroutines run on the event loop; `take` decodes records in the caller's thread.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from barnabas.client.api.consumer_positions import STEP, ConsumerPositions
from barnabas.client.api.errors import CommitFailedError
from barnabas.client.api.fetched import FetchedRecords
from barnabas.client.api.group_session import GroupSession, Partitions, RebalanceCallback, RebalanceCallbacks
from barnabas.client.api.options import CheckedOptions, ConsumerOptions
from barnabas.client.errors import ClientError
from barnabas.client.offsets import READ_COMMITTED
from barnabas.common.errors import KafkaError
from barnabas.common.retry import Deadline
from barnabas.common.types import TopicPartition

CallUser = Callable[[RebalanceCallback, set[TopicPartition]], Awaitable[None]]


class ConsumerCore(ConsumerPositions):
    def __init__(
        self,
        name: str,
        bootstrap_servers: str | Iterable[str] | None,
        config: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> None:
        read = CheckedOptions(name, ConsumerOptions, bootstrap_servers, config, options)
        super().__init__(read)
        self._member_settings, self._protocol = read.member(), read.group_protocol()
        self._max_poll = read.seconds("max_poll_interval_ms", 300_000, 1)
        self._metadata_age = read.seconds("metadata_max_age_ms", 300_000, 1)
        self._auto_commit = read.flag("enable_auto_commit", True) and self.group is not None
        self._commit_interval = read.seconds("auto_commit_interval_ms", 5_000)
        self._next_commit = Deadline(self._commit_interval)
        self._is_manual = False
        self._topics: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._callbacks = RebalanceCallbacks()
        self._background: list[asyncio.Task[None]] = []
        self._is_polling = False
        self._is_closed = False

    # -- subscription -------------------------------------------------------------------------------

    @property
    def assignment(self) -> Partitions:
        return self._assigned

    @property
    def paused(self) -> set[TopicPartition]:
        return set(self._fetcher.paused)

    async def subscribe(
        self, topics: Iterable[str], pattern: re.Pattern[str] | None, callbacks: RebalanceCallbacks
    ) -> None:
        self._check_open()
        if self._is_manual:
            raise ValueError(
                "the consumer has partitions by assign(); subscribe() and assign() are mutually exclusive"
            )
        self._topics, self._pattern, self._callbacks = list(topics), pattern, callbacks
        found = await self._subscribed_topics()
        if self.group is None:
            self._replace(frozenset(await self.client.partitions(found)))
        elif self.session is None:
            make = GroupSession
            self.session = make(self.client, self.group, found, self._member_settings, self._protocol)
        else:
            self.session.subscribe(found)
        if not self._background:
            self._background = [
                asyncio.create_task(self._refresh(), name="metadata of a consumer"),
                asyncio.create_task(self._watch(), name="max.poll.interval.ms of a consumer"),
            ]

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._check_open()
        if self.session is not None:
            raise ValueError(
                "the consumer has subscribed to topics; subscribe() and assign() are mutually exclusive"
            )
        self._is_manual = True
        wanted = frozenset(partitions)
        await self.client.topics({tp.topic for tp in wanted})
        self._replace(wanted)

    async def _subscribed_topics(self) -> list[str]:
        if self._pattern is None:
            return self._topics
        known = await self.client.all_topics()
        return sorted(
            name for name, topic in known.items() if not topic.internal and self._pattern.search(name)
        )

    def _replace(self, wanted: Partitions) -> None:
        self._remove(self._assigned - wanted)
        self._add(wanted - self._assigned)

    # -- fetching -----------------------------------------------------------------------------------

    @property
    def has_records(self) -> bool:
        """Records can be taken without waiting, and nothing else has to be done before."""
        if not self._chunks or self._is_expelled:
            return False
        if self._auto_commit and self._next_commit.passed:
            return False
        return self.session is None or not self.session.needs_attention

    async def prepare(self, timeout_seconds: float, call: CallUser) -> None:
        """Commit, follow the group, and fetch until there are records or the time is over."""
        self._check_open()
        if not self._assigned and self.session is None:
            raise ValueError("the consumer has no topics: call subscribe() or assign() first")
        deadline = Deadline(timeout_seconds)
        self._is_polling = True
        try:
            while True:
                await self._maintain(call)
                if self._chunks:
                    return
                await self._fetch(min(deadline.remaining, STEP))
                if self._chunks or deadline.passed:
                    return
        finally:
            self._is_polling = False
            self.last_poll = time.monotonic()

    async def _maintain(self, call: CallUser) -> None:
        self._before = {}
        if self._auto_commit and self._next_commit.passed:
            await self._commit_quietly()
        session = self.session
        if session is None:
            return
        if self._is_expelled:
            self._is_expelled = False
            await self._revoke(self._assigned, True, call)
        if session.needs_attention:
            await session.reconcile(
                lambda: self._assigned,
                lambda partitions, is_lost: self._revoke(partitions, is_lost, call),
                lambda partitions: self._give(partitions, call),
            )

    async def _fetch(self, seconds: float) -> None:
        if not self._assigned:
            if self.session is not None:
                await self.session.wait(seconds)
            return
        missing = self._assigned - self.positions.keys()
        if missing:
            await self._find_positions(missing)
        committed_only = self.settings.isolation == READ_COMMITTED
        for fetched in await self._fetcher.fetch(seconds):
            if fetched.partition in self._assigned:
                chunk = FetchedRecords(fetched, self._deserializers, committed_only=committed_only)
                self._chunks.append(chunk)

    # -- assignment ---------------------------------------------------------------------------------

    async def _revoke(self, partitions: Partitions, is_lost: bool, call: CallUser) -> None:
        if not partitions:
            return
        if not is_lost and self._auto_commit:
            await self._commit_quietly()
        callback = self._callbacks.on_revoked
        if is_lost and self._callbacks.on_lost is not None:
            callback = self._callbacks.on_lost
        if callback is not None:
            await call(callback, set(partitions))
        self._remove(partitions)

    async def _give(self, partitions: Partitions, call: CallUser) -> None:
        self._add(partitions)
        if self._callbacks.on_assigned is not None:
            await call(self._callbacks.on_assigned, set(partitions))

    def _add(self, partitions: Partitions) -> None:
        self._assigned |= partitions

    def _remove(self, partitions: Partitions) -> None:
        self._assigned -= partitions
        self._fetcher.paused -= partitions
        self._chunks = deque(chunk for chunk in self._chunks if chunk.tp not in partitions)
        for tp in partitions:
            self._fetcher.remove(tp)
            self.positions.pop(tp, None)
            self._committed.pop(tp, None)
            self._before.pop(tp, None)

    # -- background ---------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        """Notice new topics that match the pattern, and new partitions."""
        counts: dict[str, int] = {}
        while True:
            await asyncio.sleep(self._metadata_age)
            try:
                topics = await self._subscribed_topics()
                now = {tp.topic: tp.partition for tp in await self.client.partitions(topics)}
            except (ClientError, KafkaError):
                continue
            if self.session is not None:
                self.session.subscribe(topics)
                if counts and now != counts:
                    self.session.request_rejoin()
            counts = now

    async def _watch(self) -> None:
        """Leave the group if the caller does not poll for max.poll.interval.ms."""
        while self.session is not None:
            late = time.monotonic() - self.last_poll
            if not self._is_polling and late >= self._max_poll and not self.session.needs_attention:
                self._is_expelled = True
                await self.session.leave()
            await asyncio.sleep(max(self._max_poll - late, 0.1) if late < self._max_poll else 1.0)

    async def _commit_quietly(self) -> None:
        self._next_commit = Deadline(self._commit_interval)
        try:
            await self.commit()
        except CommitFailedError:
            return  # the next owner reads the records again

    async def close(self, call: CallUser, *, after_error: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if after_error:
            self._put_back()
        try:
            if self._auto_commit and self.positions and not self._is_expelled:
                await self._commit_quietly()
            if self.session is not None and self._assigned and self._callbacks.on_revoked is not None:
                await call(self._callbacks.on_revoked, set(self._assigned))
        finally:
            if self.session is not None:
                await self.session.leave()
            await self._fetcher.close()
            await self.client.close()
            self._resources.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientError("the consumer is closed")
