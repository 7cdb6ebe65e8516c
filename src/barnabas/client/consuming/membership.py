"""Common base of the two group protocols, and the choice between them."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError, is_retriable
from barnabas.client.groups import describe_group, find_coordinator
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff, Deadline
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.consumer import ConsumerGroupHeartbeatRequest
from barnabas.protocol.schema import Message

LEAVE_SECONDS = 5.0
# A coordinator may compute a new member's assignment after responding, and cannot push it.
SOON, EXPECTING_SECONDS = 0.2, 10.0
REBALANCE_SECONDS = 60.0  # for a member to revoke partitions
FORGOTTEN = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Names and defaults are those of Kafka's consumer (session.timeout.ms, ...)."""

    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    rebalance_timeout: float = REBALANCE_SECONDS  # Kafka's consumer uses max.poll.interval.ms
    strategies: tuple[str, ...] = ("range", "roundrobin")  # of classic groups
    instance_id: str | None = None  # of a static member


class GroupMembership(ABC):
    """`join` first, then `keep_alive` in a task.

    `partitions` is the current assignment. When it changes, `changed` is set; the caller stops reading those revoked
    and calls `settle` with the rest, after which `partitions` may have grown.
    """

    def __init__(
        self, client: Client, group: str, topics: Iterable[str], settings: MemberSettings | None = None
    ) -> None:
        self.client = client
        self.group = group
        self.settings = settings or MemberSettings()
        self.was_forgotten = False
        """The coordinator removed this member: its partitions may have another owner already."""
        self.topics = sorted(set(topics))
        self.member_id = ""
        self.epoch = 0  # or generation: every commit names it
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.changed = asyncio.Event()
        self.failure: Exception | None = None
        self._interval = 1.0
        self._coordinator: int | None = None

    @abstractmethod
    async def join(self) -> None: ...

    def subscribe(self, topics: Iterable[str]) -> None:
        """Change the topics; effective with the next `settle`."""
        self.topics = sorted(set(topics))
        self.changed.set()

    @abstractmethod
    def request_rejoin(self) -> None:
        """Have the next `settle` start a rebalance, if the protocol needs one."""

    @abstractmethod
    async def settle(self, owned: frozenset[TopicPartition]) -> None: ...

    @abstractmethod
    async def _beat(self) -> None: ...

    @abstractmethod
    async def _leave_group(self) -> None: ...

    async def keep_alive(self) -> None:
        """Send heartbeats until cancelled. A fatal error ends it and is stored in `failure`."""
        backoff = Backoff()
        expecting = Deadline(EXPECTING_SECONDS)
        while True:
            soon = not self.partitions and not expecting.passed
            await asyncio.sleep(min(self._interval, SOON) if soon else self._interval)
            try:
                await self._beat()
                backoff.reset()
            except (ClientError, KafkaError) as error:
                if not is_retriable(error):
                    self.failure = error
                    self.changed.set()
                    return
                await asyncio.sleep(min(backoff.next_delay(), self.client.total_timeout))

    async def leave(self) -> None:
        """Leave the group; on failure the session timeout removes the member."""
        with contextlib.suppress(ClientError, KafkaError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._leave_group()

    async def send(self, request: Message, timeout_seconds: float | None = None) -> Any:
        """Send to the coordinator, looked up again after a failure. The caller checks the response's error."""
        if self._coordinator is None:
            self._coordinator = await find_coordinator(self.client, self.group)
        try:
            return await self.client.send_to_broker(self._coordinator, request, timeout_seconds)
        except (ClientError, KafkaError):
            self._coordinator = None
            raise

    def forget_coordinator(self) -> None:
        self._coordinator = None

    def lose_all(self, *, forgotten: bool = False) -> None:
        self.was_forgotten = self.was_forgotten or forgotten
        self.partitions = frozenset()
        self.changed.set()


PROTOCOLS = ("auto", "classic", "consumer")


async def choose_membership(
    client: Client,
    group: str,
    topics: Iterable[str],
    settings: MemberSettings | None = None,
    protocol: str = "auto",
) -> GroupMembership:
    """`auto`: KIP-848 if the brokers support it and the group has no classic members.

    A classic member can join groups of both types; brokers may refuse to convert a group for a KIP-848 member.
    """
    from barnabas.client.consuming.classic import ClassicGroupMembership
    from barnabas.client.consuming.heartbeats import ConsumerGroupMembership

    async def attempt() -> bool:
        connection = await client.connection_to(await find_coordinator(client, group))
        return ConsumerGroupHeartbeatRequest.api_key in connection.versions

    if protocol == "auto":
        has_api = await client.retry(attempt)
        protocol = "consumer" if has_api and not await _has_classic_members(client, group) else "classic"
    if protocol == "consumer":
        return ConsumerGroupMembership(client, group, topics, settings)
    return ClassicGroupMembership(client, group, topics, settings)


async def _has_classic_members(client: Client, group: str) -> bool:
    try:
        _, found = await describe_group(client, group)
    except KafkaError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise
    return bool(found.members)
