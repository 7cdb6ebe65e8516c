"""Recorded conversations about consumer groups: all response fields are compared except random ids."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.protocol.messages.consumer import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.schema import Struct
from tests.support.groups.conversations import Talk

REBALANCE_MS = 60_000
DIFFERENT_ANYWHERE = {"topic_id", "port", "throttle_time_ms"}
_RANDOM = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])")  # an id as Kafka makes them up
NOTHING: list[ConsumerGroupHeartbeatTopicPartitions] = []


def beat(group: str, member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)


def joining(group: str, member: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    names = fields.pop("subscribed_topic_names", list(topics))
    return beat(
        group,
        member,
        0,
        rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", REBALANCE_MS),
        subscribed_topic_names=names,
        topic_partitions=fields.pop("topic_partitions", NOTHING),
        **fields,
    )


class ConsumerTalk(Talk):
    """A member's last response has its assignment; `stay` reports it as a client does."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._held: dict[str, list[ConsumerGroupHeartbeatTopicPartitions]] = {}
        self._epochs: dict[str, int] = {}

    async def topic_id(self, name: str) -> bytes:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        answer = await self._connections[0].send(request, 12)
        return bytes(answer.topics[0].topic_id)

    async def say(
        self, request: ConsumerGroupHeartbeatRequest, version: int = 1
    ) -> ConsumerGroupHeartbeatResponse:
        answer: ConsumerGroupHeartbeatResponse = await self.ask(request, version)
        self._note(answer)
        return answer

    def _note(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code or answer.member_id is None:
            return
        self._epochs[answer.member_id] = answer.member_epoch
        if answer.assignment is not None:
            self._held[answer.member_id] = answer.assignment.topic_partitions

    async def stay(self, group: str, member: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Heartbeat of a member that has reconciled."""
        request = beat(group, member, self._epochs[member], topic_partitions=self._held[member], **fields)
        return await self.say(request)

    async def nod(self, group: str, member: str) -> ConsumerGroupHeartbeatResponse:
        """The short heartbeat of an unchanged member."""
        return await self.say(beat(group, member, self._epochs[member]))

    async def quietly_until(
        self, group: str, member: str, done: Callable[[ConsumerGroupHeartbeatResponse], bool]
    ) -> None:
        """Heartbeats until something has happened in the background; only the last is compared."""
        for _ in range(300):
            request = beat(group, member, self._epochs[member])
            if self._epochs[member] == 0:
                raise AssertionError("a member that has to join again cannot wait")
            answer = await self._connections[0].send(request, 1)
            if done(answer):
                self._note(answer)
                self.heard.append((f"{len(self.heard)}: at last", self._comparable(answer)))
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{member} waits in vain")

    async def describe(self, *groups: str) -> Any:
        return await self.ask(ConsumerGroupDescribeRequest(group_ids=list(groups)), 1)

    async def describe_shares(self, group: str) -> None:
        """Which of two topics a member keeps depends on their random ids: their names are left out."""
        answer = await self._connections[0].send(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
        for member in answer.groups[0].members:
            for assignment in (member.assignment, member.target_assignment):
                for topic in assignment.topic_partitions:
                    topic.topic_name = ""
        self.heard.append((f"{len(self.heard)}: shares of {group}", self._comparable(answer)))

    def _plain(self, text: str) -> str:
        plain = super()._plain(text)
        return _RANDOM.sub(lambda found: self._names.setdefault(found[0], f"#{len(self._names)}"), plain)

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, Struct):
            fields = {field.name: getattr(value, field.name) for field in value.FIELDS}
            return {
                name: self._comparable(part)
                for name, part in fields.items()
                if name not in DIFFERENT_ANYWHERE
            }
        return super()._comparable(value)


ConsumerScenario = Callable[[ConsumerTalk], Awaitable[None]]
