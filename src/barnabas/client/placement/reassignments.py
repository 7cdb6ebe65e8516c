"""Partition reassignments: start, cancel, list, execute a few at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import error_code
from barnabas.client.placement.planner import ReplicaMove
from barnabas.common.errors import ErrorCode
from barnabas.common.retry import Backoff, Deadline
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.cluster import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)

POLL_INTERVAL = 0.25  # seconds between polls of reassignments in progress
PREFERRED = 0  # the election type of ElectLeaders

_NO_FAILURE = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """Reassignment in progress. `replicas` holds old and new replicas."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


async def alter(client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Start reassignments to these replicas; None cancels one in progress. Raises the first error."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in targets.items():
        wanted = None if replicas is None else list(replicas)
        topics.setdefault(topic, []).append(ReassignablePartition(index, wanted))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=_timeout_ms(client), topics=[ReassignableTopic(*item) for item in topics.items()]
    )
    response: AlterPartitionReassignmentsResponse = await _ask_controller(client, request)
    for result in response.responses:
        for part in result.partitions:
            tp = f"{result.name}-{part.partition_index}"
            raise_for(part.error_code, f"{tp}: {part.error_message}" if part.error_message else tp)


async def in_progress(client: Client) -> dict[TopicPartition, Reassignment]:
    """Reassignments in progress, from the controller: other brokers may lag behind."""
    request = ListPartitionReassignmentsRequest(timeout_ms=_timeout_ms(client))
    response: ListPartitionReassignmentsResponse = await _ask_controller(client, request)
    return {
        TopicPartition(topic.name, part.partition_index): Reassignment(
            tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
        )
        for topic in response.topics
        for part in topic.partitions
    }


async def elect_preferred(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """Elect preferred leaders; returns the failed partitions with their errors."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    if not topics:
        return {}
    wanted = [TopicPartitions(*item) for item in topics.items()]
    request = ElectLeadersRequest(
        election_type=PREFERRED, topic_partitions=wanted, timeout_ms=_timeout_ms(client)
    )
    response: ElectLeadersResponse = await _ask_controller(client, request)
    return {
        TopicPartition(result.topic, part.partition_id): part.error_message
        or error_code(part.error_code).name
        for result in response.replica_election_results
        for part in result.partition_result
        if part.error_code not in _NO_FAILURE
    }


async def carry_out(
    client: Client,
    moves: Sequence[ReplicaMove],
    at_once: int,
    on_progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Reassign partitions, at most `at_once` concurrently, and return when all are complete.

    Safe to cancel: started reassignments continue on the brokers, the others are not started.
    """
    waiting, moving = deque(moves), set[TopicPartition]()
    while waiting or moving:
        begun = [waiting.popleft() for _ in range(min(len(waiting), at_once - len(moving)))]
        if begun:
            await alter(client, {move.partition: move.after for move in begun})
            moving.update(move.partition for move in begun)
        moving &= (await in_progress(client)).keys()
        on_progress(len(moves) - len(waiting) - len(moving))
        if moving:
            await asyncio.sleep(POLL_INTERVAL)
    await _until_known(client, {move.partition: move.after for move in moves})


async def _until_known(client: Client, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Wait until metadata reflects the reassignments, so that later reads are current."""
    deadline, backoff = Deadline(client.total_timeout), Backoff()
    names = sorted({partition.topic for partition in targets})
    while names and not deadline.passed:
        topics = (await client.retry(lambda: client.refresh(names))).topics
        if all(_replicas(topics, partition) in (None, target) for partition, target in targets.items()):
            return
        await asyncio.sleep(min(backoff.next_delay(), deadline.remaining))


def _replicas(topics: Mapping[str, Any], partition: TopicPartition) -> tuple[int, ...] | None:
    """None if the topic was deleted meanwhile."""
    topic = topics.get(partition.topic)
    found = topic.partitions.get(partition.partition) if topic is not None else None
    return None if found is None else found.replicas


async def _ask_controller(client: Client, request: Any) -> Any:
    """Send with retries: these requests are idempotent."""

    async def attempt() -> Any:
        response = await client.send_to_controller(request)
        raise_for(response.error_code, getattr(response, "error_message", None) or "")
        return response

    return await client.retry(attempt)


def _timeout_ms(client: Client) -> int:
    return int(client.request_timeout * 1000)
