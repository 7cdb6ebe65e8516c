"""Offset editor of groups: the plan of a change, and the requests behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from barnabas.client import Client, error_code, groups, raise_for
from barnabas.client.offsets import beginning_offsets, end_offsets, list_offsets, parse_start
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.sampling.commits import GroupPositions, committed_positions, share_positions
from barnabas.services.console.sampling.snapshot import SHARE

# -- Plan: parsing and validation. No I/O --------------------------------------------------------------

EARLIEST, LATEST, TIME, NUMBER, SHIFT, COPY = "earliest", "latest", "time", "number", "shift", "copy"
WAYS = (EARLIEST, LATEST, TIME, NUMBER, SHIFT, COPY)


class OffsetChange(msgspec.Struct):
    topic: str
    partition: int
    before: int | None
    """None: the group has no offset there."""
    after: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class PlannedChange(OffsetChange):
    start: int
    end: int
    problem: str
    """Reason why the change is not possible; empty if it is."""


def parse_time(text: str) -> int:
    """Parse a time as epoch milliseconds."""
    try:
        start = parse_start(text)
    except ValueError:
        start = None
    if start is None or start.kind != "time" or not 0 <= start.value < 1 << 63:
        example = "2026-11-15T08:30 or 1794904200000 (milliseconds)"
        raise BadInputError(f"not a valid time: {text[:50]!r} (example: {example})", "value")
    return start.value


def parse_number(text: str, way: str) -> int:
    try:
        number = int(text)
    except ValueError:
        example = "120" if way == NUMBER else "-10 or 10"
        raise BadInputError(f"not a valid number: {text[:50]!r} (example: {example})", "value") from None
    if way == NUMBER and number < 0:
        raise BadInputError("An offset is not negative", "value")
    return number


def plan(
    wanted: Mapping[TopicPartition, int],
    before: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
) -> list[PlannedChange]:
    """Plan each partition with a target offset, including unchanged ones."""
    planned = []
    for tp in sorted(partitions):
        if tp in wanted:
            start, end, after = starts[tp], ends[tp], wanted[tp]
            problem = ""
            if not start <= after <= end:
                problem = f"{after} is outside of the log, which has {start} to {end}"
            planned.append(PlannedChange(*tp, before.get(tp), after, start, end, problem))
    return planned


def differences(changes: Iterable[OffsetChange], now: Mapping[TopicPartition, int]) -> list[str]:
    """Partitions whose committed offset changed since the plan was made."""
    return [
        f"{change.tp} was at {_word(change.before)} and is at {_word(now.get(change.tp))}"
        for change in changes
        if now.get(change.tp) != change.before
    ]


def _word(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)


Offsets = dict[TopicPartition, int]


async def offsets_now(client: Client, name: str, kind: str, topic_names: Mapping[Uuid, str]) -> Offsets:
    """Request the group's committed offsets, or the start offsets of its share partitions."""

    async def attempt() -> GroupPositions:
        coordinator = await groups.find_coordinator(client, name)
        ask = share_positions if kind == SHARE else committed_positions
        found = (await ask(client, coordinator, [name], topic_names)).get(name)
        if found is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {name} cannot say now")
        return found

    positions: GroupPositions = await client.retry(attempt)
    return {
        TopicPartition(topic, partition): offset
        for topic, offsets in positions.offsets.items()
        for partition, offset in offsets.items()
    }


async def log_bounds(client: Client, partitions: Iterable[TopicPartition]) -> tuple[Offsets, Offsets]:
    """Start and end offsets of partitions."""
    wanted = list(partitions)
    return await beginning_offsets(client, wanted), await end_offsets(client, wanted)


async def offsets_at(
    client: Client, partitions: Iterable[TopicPartition], timestamp: int, ends: Offsets
) -> Offsets:
    """First offset at or after a time; the end offset if all records are older."""
    found = await list_offsets(client, dict.fromkeys(partitions, timestamp))
    return {tp: answer.offset if answer.offset >= 0 else ends[tp] for tp, answer in found.items()}


async def move_group(client: Client, name: str, kind: str, offsets: Offsets) -> None:
    """Alter the group's offsets; the coordinator rejects this while the group has members."""
    if kind == SHARE:
        await _move_share_group(client, name, offsets)
        return
    try:
        await groups.commit_offsets(client, name, offsets)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            raise has_members(name) from None
        raise


def has_members(name: str) -> KafkaError:
    return KafkaError(
        ErrorCode.NON_EMPTY_GROUP,
        f"{name} has members, and only they may commit. Stop its consumers and wait until their session timeout is "
        "over, then try again.",
    )


async def _move_share_group(client: Client, name: str, offsets: Offsets) -> None:
    topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        wanted = topics.setdefault(topic, AlterShareGroupOffsetsRequestTopic(topic_name=topic))
        wanted.partitions.append(
            AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
        )

    def check(response: AlterShareGroupOffsetsResponse | Any) -> None:
        if error_code(response.error_code) is ErrorCode.NON_EMPTY_GROUP:
            raise has_members(name)
        raise_for(response.error_code, response.error_message or name)
        for topic in response.responses:
            for partition in topic.partitions:
                tp = f"{topic.topic_name}-{partition.partition_index}"
                raise_for(partition.error_code, partition.error_message or tp)

    request = AlterShareGroupOffsetsRequest(group_id=name, topics=list(topics.values()))
    await groups.ask_coordinator(client, name, request, check)
