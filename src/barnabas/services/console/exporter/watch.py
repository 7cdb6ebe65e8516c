"""Follows the sampler, adds statuses and member counts, and notifies followers such as alarms and publishing."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Set
from contextlib import suppress
from typing import NamedTuple

import msgspec

from barnabas.client import Client, ClientError
from barnabas.client.status import STATUS_TOPIC, ProcessStatus
from barnabas.common.cooperative import pieces
from barnabas.common.errors import KafkaError
from barnabas.protocol.messages.consumer import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.groups import DescribeGroupsRequest
from barnabas.protocol.messages.share import ShareGroupDescribeRequest
from barnabas.protocol.messages.streams import StreamsGroupDescribeRequest
from barnabas.protocol.schema import Message
from barnabas.services.console.sampling.sampler import Sampler
from barnabas.services.console.sampling.snapshot import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    ClusterSnapshot,
    GroupSample,
)
from barnabas.services.console.statuses import StatusBoard

# -- Figures of a cluster: the sampler's snapshot, and figures that only the exporter and alarms need ---

STALE_SECONDS = 60.0
"""Six intervals of the sampler. Older figures are not shown as current."""


class ClusterFigures(NamedTuple):
    snapshot: ClusterSnapshot
    age: float = 0.0
    """Age of the snapshot in seconds."""
    members: Mapping[str, int] = {}
    """Number of members by group, if known."""
    statuses: tuple[ProcessStatus, ...] = ()
    """Statuses of agents, connectors, mirrors and pipelines."""

    @property
    def is_stale(self) -> bool:
        return self.snapshot.is_empty or self.age > STALE_SECONDS


# -- Figures filtered by the topics and groups that a user may describe. Pure ---------------------------


def narrowed(known: ClusterFigures, topics: Set[str], groups: Set[str]) -> ClusterFigures:
    snapshot = known.snapshot
    seen = msgspec.structs.replace(
        snapshot,
        topics={name: topic for name, topic in snapshot.topics.items() if name in topics},
        groups={name: group.within(topics) for name, group in snapshot.groups.items() if name in groups},
    )
    return known._replace(snapshot=seen, statuses=known.statuses if STATUS_TOPIC in topics else ())


# -- Number of members of each group. Not part of the snapshot, as responses include all assignments ----

GROUPS_PER_REQUEST = 50
EMPTY = ("Empty", "Dead")

REQUESTS: dict[str, Callable[[list[str]], Message]] = {
    CLASSIC: lambda names: DescribeGroupsRequest(groups=names),
    CONSUMER: lambda names: ConsumerGroupDescribeRequest(group_ids=names),
    SHARE: lambda names: ShareGroupDescribeRequest(group_ids=names),
    STREAMS: lambda names: StreamsGroupDescribeRequest(group_ids=names),
}


class Question(NamedTuple):
    coordinator: int
    request: Message


def questions(snapshot: ClusterSnapshot) -> Iterator[Question]:
    """Describe requests for groups that may have members, many groups per request."""
    requested: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for group in snapshot.groups.values():
        if not _is_empty(group) and group.type in REQUESTS:
            requested[group.coordinator, group.type].append(group.name)
    for (coordinator, kind), names in requested.items():
        for some in pieces(names, GROUPS_PER_REQUEST):
            yield Question(coordinator, REQUESTS[kind](list(some)))


class MemberCounts:
    """Number of members by group. Groups that could not be described keep their previous count."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.counts: dict[str, int] = {}

    async def refresh(self, snapshot: ClusterSnapshot) -> None:
        known = {name: count for name, count in self.counts.items() if name in snapshot.groups}
        known |= dict.fromkeys((each.name for each in snapshot.groups.values() if _is_empty(each)), 0)
        for question in questions(snapshot):
            known |= await self._ask(question)
        self.counts = known

    async def _ask(self, question: Question) -> dict[str, int]:
        """Member counts; a moved coordinator or a deleted group is picked up by the next refresh."""
        try:
            answer = await self._client.send_to_broker(question.coordinator, question.request)
        except (ClientError, KafkaError, OSError):
            return {}
        return {group.group_id: len(group.members) for group in answer.groups if not group.error_code}


def _is_empty(group: GroupSample) -> bool:
    return group.state in EMPTY


Follower = Callable[[ClusterFigures], Awaitable[None]]


class ClusterWatch:
    """Follows the sampler between `start` and `close`. All methods belong to one event loop."""

    def __init__(self, sampler: Sampler, client: Client, statuses: StatusBoard) -> None:
        self._sampler = sampler
        self._statuses = statuses
        self._members = MemberCounts(client)
        self._task: asyncio.Task[None] | None = None
        self.followers: list[Follower] = []
        """Called sequentially after every tick; they must not raise."""

    @property
    def known(self) -> ClusterFigures:
        snapshot = self._sampler.snapshot
        return ClusterFigures(snapshot, snapshot.age, self._members.counts, tuple(self._statuses.current()))

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow(), name="watch")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _follow(self) -> None:
        async for snapshot in self._sampler.ticks():
            if not snapshot.error:  # otherwise the cluster is unreachable, at least partly
                await self._members.refresh(snapshot)
            for follower in self.followers:
                await follower(self.known)
