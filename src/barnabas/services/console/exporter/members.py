"""How many members each group has. The sampler does not ask: members come with all that is assigned to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.services.console.sampling.snapshot import CLASSIC, CONSUMER, SHARE, STREAMS, GroupSample, Snapshot
from barnabas.common.errors import KafkaError
from barnabas.protocol.messages.consumer import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.groups import DescribeGroupsRequest
from barnabas.protocol.messages.share import ShareGroupDescribeRequest
from barnabas.protocol.messages.streams import StreamsGroupDescribeRequest
from barnabas.protocol.schema import Message
from barnabas.common.cooperative import pieces

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


def questions(snapshot: Snapshot) -> Iterator[Question]:
    """About groups that may have members, many in one request."""
    asked: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for group in snapshot.groups.values():
        if not _is_empty(group) and group.type in REQUESTS:
            asked[group.coordinator, group.type].append(group.name)
    for (coordinator, kind), names in asked.items():
        for some in pieces(names, GROUPS_PER_REQUEST):
            yield Question(coordinator, REQUESTS[kind](list(some)))


class MemberCounts:
    """`counts` has the groups whose members are known, and keeps those that could not be asked about this time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.counts: dict[str, int] = {}

    async def refresh(self, snapshot: Snapshot) -> None:
        known = {name: count for name, count in self.counts.items() if name in snapshot.groups}
        known |= dict.fromkeys((each.name for each in snapshot.groups.values() if _is_empty(each)), 0)
        for question in questions(snapshot):
            known |= await self._ask(question)
        self.counts = known

    async def _ask(self, question: Question) -> dict[str, int]:
        """A coordinator that has moved, or a group that is gone, is found at the next refresh."""
        try:
            answer = await self._client.send_to_broker(question.coordinator, question.request)
        except (ClientError, KafkaError, OSError):
            return {}
        return {group.group_id: len(group.members) for group in answer.groups if not group.error_code}


def _is_empty(group: GroupSample) -> bool:
    return group.state in EMPTY
