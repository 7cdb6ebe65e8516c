"""Member of a consumer group (KIP-848): heartbeats carry assignments and acknowledge revocations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from barnabas.client.cluster import raise_for
from barnabas.client.consuming.membership import FORGOTTEN, GroupMembership
from barnabas.client.share.membership import new_member_id
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.consumer import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

JOINING, LEAVING = 0, -1


class ConsumerGroupMembership(GroupMembership):
    _lock: asyncio.Lock | None = None
    _has_new_topics = False

    async def join(self) -> None:
        self.member_id = new_member_id()
        self._lock = asyncio.Lock()
        await self.client.topics(self.topics)
        await self.client.retry(lambda: self._heartbeat(frozenset()), self.topics)

    def subscribe(self, topics: Iterable[str]) -> None:
        super().subscribe(topics)
        self._has_new_topics = True

    def request_rejoin(self) -> None:
        """The coordinator hands revoked partitions on without a rebalance."""

    async def settle(self, owned: frozenset[TopicPartition]) -> None:
        """Acknowledge revoked and newly assigned partitions."""
        await self.client.retry(lambda: self._heartbeat(self.partitions), self.topics)

    async def _beat(self) -> None:
        await self._heartbeat(None)

    async def _leave_group(self) -> None:
        self.epoch = LEAVING
        await self._heartbeat(None)

    async def _heartbeat(self, owned: frozenset[TopicPartition] | None) -> None:
        assert self._lock is not None
        async with self._lock:  # one at a time: each heartbeat carries the epoch of the previous response
            response: ConsumerGroupHeartbeatResponse = await self.send(self._request(owned))
            try:
                raise_for(response.error_code, response.error_message or self.group)
            except KafkaError as error:
                self.forget_coordinator()
                if error.code in FORGOTTEN and self.epoch != LEAVING:
                    self.epoch = JOINING  # the next heartbeat joins again
                    self.lose_all(forgotten=True)
                    return
                raise
            if self.epoch != LEAVING:
                await self._take_over(response)

    def _request(self, owned: frozenset[TopicPartition] | None) -> ConsumerGroupHeartbeatRequest:
        is_new = self.epoch == JOINING
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.settings.instance_id,
        )
        if is_new:
            request.subscribed_topic_names = self.topics
            request.rebalance_timeout_ms = int(self.settings.rebalance_timeout * 1000)
            request.topic_partitions = []
        elif owned is not None:
            request.topic_partitions = self._by_topic(owned)
        if self._has_new_topics:
            request.subscribed_topic_names, self._has_new_topics = self.topics, False
        return request

    def _by_topic(self, owned: frozenset[TopicPartition]) -> list[ConsumerGroupHeartbeatTopicPartitions]:
        topics: dict[str, ConsumerGroupHeartbeatTopicPartitions] = {}
        for name, index in sorted(owned):
            if name not in topics:
                topic_id = self.client.metadata.topics[name].id
                topics[name] = ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id)
            topics[name].partitions.append(index)
        return list(topics.values())

    async def _take_over(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        self._interval = response.heartbeat_interval_ms / 1000
        if response.assignment is None:
            return
        found = await self._named(response.assignment)
        if found != self.partitions:
            self.partitions = found
            self.changed.set()

    async def _named(self, assignment: ConsumerGroupHeartbeatAssignment) -> frozenset[TopicPartition]:
        assigned = assignment.topic_partitions
        if any(topic.topic_id not in self.client.metadata.topic_names for topic in assigned):
            await self.client.refresh_quietly(self.topics)
        names = self.client.metadata.topic_names
        return frozenset(
            TopicPartition(names[topic.topic_id], index)
            for topic in assigned
            if topic.topic_id in names
            for index in topic.partitions
        )
