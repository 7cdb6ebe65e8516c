"""Groups and their committed offsets, many groups per request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client import RETRIABLE, Client, UnsupportedApiError, error_code, raise_for
from barnabas.common.types import Uuid
from barnabas.protocol.messages.groups import ListedGroup, ListGroupsRequest
from barnabas.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from barnabas.protocol.messages.share import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
)
from barnabas.services.console.sampling.offsets import Failures, ask_brokers, batches
from barnabas.services.console.sampling.snapshot import CLASSIC, SHARE, Slices
from barnabas.services.console.sampling.topology import TIMEOUT

GROUPS_A_REQUEST = 100
OFFSETS_A_REQUEST = 1000
GUESS = 20  # assumed number of offsets of a new group

MANY_GROUPS = 8  # first OffsetFetch version with several groups per request: Kafka 3.0


class GroupPositions(NamedTuple):
    """Offsets of a group by topic and partition."""

    offsets: Mapping[str, Mapping[int, int]]
    lags: Mapping[str, Mapping[int, int]] = {}
    """Lag reported by the coordinator (share groups)."""

    @property
    def partitions(self) -> int:
        return sum(map(len, self.offsets.values()))


NOWHERE = GroupPositions({})


class ListedGroupAt(NamedTuple):
    name: str
    type: str
    state: str
    protocol: str
    coordinator: int


class Groups(NamedTuple):
    listed: Mapping[str, ListedGroupAt]
    positions: Mapping[str, GroupPositions]
    failures: Failures


NO_GROUPS = Groups({}, {}, {})


async def read_groups(client: Client, topic_names: Mapping[Uuid, str], before: Groups = NO_GROUPS) -> Groups:
    """Read all groups. A group whose coordinator does not answer keeps its previous offsets."""
    listed: dict[str, ListedGroupAt] = {}
    positions: dict[str, GroupPositions] = {}

    async def ask(broker_id: int) -> None:
        own = await list_groups_of(client, broker_id)
        listed.update({group.name: group for group in own})
        await _read_positions(client, broker_id, own, topic_names, before.positions, positions)

    failures = await ask_brokers({broker_id: ask(broker_id) for broker_id in client.metadata.brokers})
    for name, group in before.listed.items():
        if group.coordinator in failures and name not in positions:
            listed.setdefault(name, group)
            positions[name] = before.positions.get(name, NOWHERE)
    return Groups({name: listed[name] for name in sorted(listed)}, positions, failures)


async def list_groups_of(client: Client, broker_id: int) -> list[ListedGroupAt]:
    response = await client.send_to_broker(broker_id, ListGroupsRequest(), TIMEOUT)
    raise_for(response.error_code, f"broker {broker_id} does not list its groups")
    return [_listed(group, broker_id) for group in response.groups]


def _listed(group: ListedGroup, coordinator: int) -> ListedGroupAt:
    kind = group.group_type.lower() or CLASSIC
    return ListedGroupAt(group.group_id, kind, group.group_state, group.protocol_type, coordinator)


async def _read_positions(
    client: Client,
    coordinator: int,
    groups: Iterable[ListedGroupAt],
    topic_names: Mapping[Uuid, str],
    before: Mapping[str, GroupPositions],
    into: dict[str, GroupPositions],
) -> None:
    by_question: dict[bool, list[str]] = defaultdict(list)
    for group in groups:
        by_question[group.type == SHARE].append(group.name)

    def weight(name: str) -> int:
        known = before.get(name)
        count = GUESS if known is None else known.partitions
        return max(count, OFFSETS_A_REQUEST // GROUPS_A_REQUEST)

    slices = Slices()
    for is_share, names in by_question.items():
        ask = share_positions if is_share else committed_positions
        for batch in batches(names, weight, OFFSETS_A_REQUEST):
            for name, found in (await ask(client, coordinator, batch, topic_names)).items():
                into[name] = before.get(name, NOWHERE) if found is None else found
            await slices.rest()


Asking = Callable[[Client, int, list[str], Mapping[Uuid, str]], Awaitable[dict[str, GroupPositions | None]]]


async def committed_positions(
    client: Client, coordinator: int, names: list[str], topic_names: Mapping[Uuid, str]
) -> dict[str, GroupPositions | None]:
    """Committed offsets by group; None if the coordinator returns a retriable error."""
    connection = await client.connection_to(coordinator)
    if connection.version_for(OffsetFetchRequest) < MANY_GROUPS:
        raise UnsupportedApiError(
            f"the broker at {connection.address} is older than Kafka 3.0: groups cannot be read from it"
        )
    wanted = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    response = await client.send_to_broker(coordinator, OffsetFetchRequest(groups=wanted), TIMEOUT)
    return {group.group_id: _unless_failed(group, _commits, topic_names) for group in response.groups}


async def share_positions(
    client: Client, coordinator: int, names: list[str], topic_names: Mapping[Uuid, str]
) -> dict[str, GroupPositions | None]:
    """Start offsets of share partitions by group; None if the coordinator returns a retriable error."""
    wanted = [DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in names]
    request = DescribeShareGroupOffsetsRequest(groups=wanted)
    response = await client.send_to_broker(coordinator, request, TIMEOUT)
    return {group.group_id: _unless_failed(group, _starts, topic_names) for group in response.groups}


def _unless_failed(
    group: Any, read: Callable[[Any, Mapping[Uuid, str]], GroupPositions], topic_names: Mapping[Uuid, str]
) -> GroupPositions | None:
    """None for a retriable error; no offsets for a fatal one."""
    if not group.error_code:
        return read(group, topic_names)
    return None if error_code(group.error_code) in RETRIABLE else NOWHERE


def _commits(group: OffsetFetchResponseGroup, topic_names: Mapping[Uuid, str]) -> GroupPositions:
    found: dict[str, dict[int, int]] = {}
    for topic in group.topics:
        name = topic.name or topic_names.get(topic.topic_id)
        rows = {
            partition.partition_index: partition.committed_offset
            for partition in topic.partitions
            if partition.committed_offset >= 0 and not partition.error_code
        }
        if name and rows:
            found[name] = rows
    return GroupPositions(found)


def _starts(group: DescribeShareGroupOffsetsResponseGroup, topic_names: Mapping[Uuid, str]) -> GroupPositions:
    offsets: dict[str, dict[int, int]] = {}
    lags: dict[str, dict[int, int]] = {}
    for topic in group.topics:
        begun = [one for one in topic.partitions if one.start_offset >= 0 and not one.error_code]
        if begun:
            offsets[topic.topic_name] = {one.partition_index: one.start_offset for one in begun}
            lags[topic.topic_name] = {one.partition_index: one.lag for one in begun if one.lag >= 0}
    return GroupPositions(offsets, lags)
