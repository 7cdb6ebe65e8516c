"""Membership of one consumer in its group: join, follow assignments, leave.

The consumer calls `reconcile` between two polls, never while the caller processes records: callbacks and commits of a
rebalance see every record that was handed out as processed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.client.consuming.membership import GroupMembership, MemberSettings, choose_membership
from barnabas.client.producing.transaction_manager import GroupMetadata
from barnabas.common.types import TopicPartition

Partitions = frozenset[TopicPartition]
RebalanceCallback = Callable[[set[TopicPartition]], object]


class RebalanceCallbacks(NamedTuple):
    on_assigned: RebalanceCallback | None = None
    on_revoked: RebalanceCallback | None = None
    on_lost: RebalanceCallback | None = None


class GroupSession:
    def __init__(
        self, client: Client, group: str, topics: Iterable[str], settings: MemberSettings, protocol: str
    ) -> None:
        self.group = group
        self._client = client
        self._topics = sorted(set(topics))
        self._settings = settings
        self._protocol = protocol
        self._member: GroupMembership | None = None
        self._heartbeats: asyncio.Task[None] | None = None
        self.has_assignment = False

    @property
    def metadata(self) -> GroupMetadata:
        member = self._member
        if member is None:
            return GroupMetadata(self.group)
        return GroupMetadata(self.group, member.member_id, member.epoch)

    @property
    def is_member(self) -> bool:
        return self._member is not None

    @property
    def needs_attention(self) -> bool:
        """The member must join, or its assignment has changed."""
        return self._member is None or self._member.changed.is_set()

    @property
    def assigned(self) -> Partitions:
        return frozenset() if self._member is None else self._member.partitions

    async def wait(self, seconds: float) -> None:
        """Until the assignment changes."""
        if self._member is not None:
            try:
                await asyncio.wait_for(self._member.changed.wait(), seconds)
            except TimeoutError:
                return

    def subscribe(self, topics: Iterable[str]) -> None:
        found = sorted(set(topics))
        if found != self._topics:
            self._topics = found
            if self._member is not None:
                self._member.subscribe(found)

    def request_rejoin(self) -> None:
        """New partitions: have a classic leader assign them."""
        if self._member is not None:
            self._member.request_rejoin()

    async def reconcile(
        self,
        owned: Callable[[], Partitions],
        revoke: Callable[[Partitions, bool], Awaitable[None]],
        assign: Callable[[Partitions], Awaitable[None]],
    ) -> None:
        """Follow the assignment. `revoke(partitions, is_lost)` and `assign(partitions)` are the consumer's part."""
        if self._member is None:
            self._member = await self._join()
        member = self._member
        member.changed.clear()
        if member.failure is not None:
            await self._drop()
            raise member.failure
        while True:
            lost = owned() - member.partitions
            if lost:
                await revoke(lost, member.was_forgotten)
            member.was_forgotten = False
            await member.settle(owned())
            if not owned() - member.partitions:
                break
            member.request_rejoin()  # cooperative: others get what is revoked now with the next rebalance
        self.has_assignment = True
        added = member.partitions - owned()
        if added:
            await assign(added)

    async def leave(self) -> None:
        member, self._member = self._member, None
        await self._stop_heartbeats()
        if member is not None and member.failure is None:
            await member.leave()

    async def _join(self) -> GroupMembership:
        member = await choose_membership(
            self._client, self.group, self._topics, self._settings, self._protocol
        )
        await member.join()
        self._heartbeats = asyncio.create_task(member.keep_alive(), name=f"heartbeats of {self.group}")
        return member

    async def _drop(self) -> None:
        self._member = None
        await self._stop_heartbeats()

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
            self._heartbeats = None
