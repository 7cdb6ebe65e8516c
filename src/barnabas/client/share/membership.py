"""Membership of a share group: heartbeats and assignments."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from uuid import uuid4

from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import ClientError, is_retriable
from barnabas.client.groups import find_coordinator
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOINING, LEAVING = 0, -1
FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
LEAVE_SECONDS = 5.0
# A new group has no partitions until the coordinator has stored its start offsets; members are not notified.
SOON = 0.2


class ShareGroupMembership:
    """`join` first, then `keep_alive` in a task; `partitions` is the assignment."""

    def __init__(self, client: Client, group: str, topics: Iterable[str], member_id: str = "") -> None:
        self.client = client
        self.group = group
        self.topics = sorted(set(topics))
        self.member_id = member_id or new_member_id()
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.failure: Exception | None = None
        self.changed = asyncio.Event()
        self._epoch = JOINING
        self._interval = 0.0
        self._coordinator: int | None = None

    async def join(self) -> None:
        await self.client.topics(self.topics)
        await self.client.retry(self._heartbeat, self.topics)

    async def keep_alive(self) -> None:
        """Send heartbeats until cancelled. A fatal error ends it and is raised by the next `take`."""
        backoff = Backoff()
        while True:
            await asyncio.sleep(self._interval if self.partitions else min(self._interval, SOON))
            try:
                await self._heartbeat()
                backoff.reset()
            except (ClientError, KafkaError) as error:
                self._coordinator = None
                if isinstance(error, KafkaError) and error.code in FORGOTTEN:
                    self._epoch = JOINING
                elif not is_retriable(error):
                    self.failure = error
                    self.changed.set()
                    return
                await asyncio.sleep(min(backoff.next_delay(), self.client.total_timeout))

    async def leave(self) -> None:
        """Leave the group; on failure the session timeout removes the member."""
        self._epoch = LEAVING
        with contextlib.suppress(ClientError, KafkaError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._heartbeat()

    async def _heartbeat(self) -> None:
        if self._coordinator is None:
            self._coordinator = await find_coordinator(self.client, self.group)
        is_new = self._epoch == JOINING
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=self.topics if is_new else None,
        )
        try:
            response: ShareGroupHeartbeatResponse = await self.client.send_to_broker(
                self._coordinator, request
            )
            raise_for(response.error_code, response.error_message or self.group)
        except (ClientError, KafkaError):
            self._coordinator = None
            raise
        if self._epoch != LEAVING:
            await self._take_over(response)

    async def _take_over(self, response: ShareGroupHeartbeatResponse) -> None:
        self._epoch = response.member_epoch
        self._interval = response.heartbeat_interval_ms / 1000
        if response.assignment is None:
            return
        assigned = response.assignment.topic_partitions
        if any(topic.topic_id not in self.client.metadata.topic_names for topic in assigned):
            await self.client.refresh_quietly(self.topics)
        names = self.client.metadata.topic_names
        self.partitions = frozenset(
            TopicPartition(names[topic.topic_id], index)
            for topic in assigned
            if topic.topic_id in names
            for index in topic.partitions
        )
        self.changed.set()


def new_member_id() -> str:
    """A random UUID in Kafka's spelling."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
