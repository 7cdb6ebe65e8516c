"""AppendMirrored, version 0: append batches of another cluster with their offsets and epochs.

Partitions are independent. Appended batches are acknowledged when they are as durable as with acks=all
(`replication/durability`). Up to about a MiB is appended at once, from the receive buffer. More, or many small
batches, is copied and appended in slices, between which the loop serves others: each slice checks leadership
and the log end again. Batches of a refused partition are neither copied nor inspected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from barnabas.common.clock import Clock
from barnabas.common.cooperative import Steps, finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.needs import HasReplicas
from barnabas.protocol.messages.mirror import (
    AppendedPartition,
    AppendedTopic,
    AppendMirroredRequest,
    AppendMirroredResponse,
    MirroredPartition,
    MirroredTopic,
)
from barnabas.records.batch import Walked, iterate_headers
from barnabas.replication import Admitted, Durability, Mirrors, Partition, admit
from barnabas.replication.follower import PIECE_BATCHES, PIECE_BYTES, pieces

if TYPE_CHECKING:
    from barnabas.network.requests import Request, Result

MAX_WAIT = 60.0  # seconds, whatever timeout a client sends
NOT_STARTED = -1
EMPTY = memoryview(b"")

Walks = Iterator[Walked]
"""Batches of a partition, some at a time."""


class MirrorNeeds(HasReplicas, Protocol):
    """Broker attributes used by AppendMirrored."""

    @property
    def clock(self) -> Clock: ...
    @property
    def mirrors(self) -> Mirrors: ...
    @property
    def durability(self) -> Durability: ...


def append_mirrored(
    broker: MirrorNeeds, request: Request, message: AppendMirroredRequest
) -> Result[AppendMirroredResponse]:
    walks = _walk_small(message)
    if walks is None:
        return _append_in_turns(broker, message)
    answers = finish(_append_all(broker, message, (iter([walked] if walked else []) for walked in walks), {}))
    unsafe = _unsafe(broker, answers)
    return _when_safe(broker, message, answers, unsafe) if unsafe else AppendMirroredResponse(topics=answers)


def _walk_small(message: AppendMirroredRequest) -> list[Walked] | None:
    """Return the batches of each partition; None if they are too many for one turn of the loop."""
    bytes_left, batches_left = PIECE_BYTES, PIECE_BATCHES
    walks: list[Walked] = []
    for data in _partitions(message):
        records = data.records or EMPTY
        bytes_left -= len(records)
        if bytes_left < 0:
            return None
        walked = list(islice(iterate_headers(records), batches_left + 1))
        batches_left -= len(walked)
        if batches_left < 0:
            return None
        walks.append(walked)
    return walks


def _partitions(message: AppendMirroredRequest) -> Iterator[MirroredPartition]:
    return (data for topic in message.topics for data in topic.partitions)


async def _append_in_turns(broker: MirrorNeeds, message: AppendMirroredRequest) -> AppendMirroredResponse:
    refused: dict[int, AppendedPartition] = {}
    for topic in message.topics:
        for data in topic.partitions:
            refusal = _refusal(broker, topic, data)
            if refusal is not None:
                refused[id(data)] = refusal
            elif data.records is not None:  # the receive buffer is reused meanwhile
                data.records = memoryview(bytes(data.records))
    steps = _append_all(
        broker, message, (_pieces(data.records or EMPTY) for data in _partitions(message)), refused
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answers: list[AppendedTopic] = end.value
            return await _when_safe(broker, message, answers, _unsafe(broker, answers))
        await asyncio.sleep(0)


def _pieces(records: memoryview) -> Walks:
    """Yield the batches of a partition, a few at a time: headers take more memory than the smallest batches."""
    headers = iterate_headers(records)
    while walked := list(islice(headers, PIECE_BATCHES)):
        yield walked


def _append_all(
    broker: MirrorNeeds,
    message: AppendMirroredRequest,
    walks: Iterable[Walks],
    refused: Mapping[int, AppendedPartition],
) -> Steps[list[AppendedTopic]]:
    """`refused` has responses known in advance, by the identity of their request data."""
    answers, walking = [], iter(walks)
    for topic in message.topics:
        answer = AppendedTopic(topic.topic_id, [])
        for data in topic.partitions:
            walked, known = next(walking), refused.get(id(data)) or _refusal(broker, topic, data)
            answer.partitions.append(known or (yield from _append(broker, topic, data, walked)))
        answers.append(answer)
    return answers


def _refusal(broker: MirrorNeeds, topic: MirroredTopic, data: MirroredPartition) -> AppendedPartition | None:
    """Return the response for a partition that accepts nothing; None if it may."""
    answer = AppendedPartition(index=data.index)
    partition = broker.replicas.by_id.get(topic.topic_id, {}).get(data.index)
    if partition is None:
        answer.error_code = broker.replicas.why_missing("", topic.topic_id, data.index)
        return answer
    try:
        _check_state(partition, topic, data)
    except KafkaError as error:
        _describe(partition, answer, error)
        return answer
    return None


def _append(
    broker: MirrorNeeds, topic: MirroredTopic, data: MirroredPartition, walks: Walks
) -> Steps[AppendedPartition]:
    """Append to a partition that `_refusal` has just checked."""
    answer = AppendedPartition(index=data.index)
    partition = broker.replicas.by_id[topic.topic_id][data.index]
    problem = None
    try:
        _move_log(partition, data)
        yield from _append_records(broker, partition, data, walks)
        _follow_source(broker, partition, data)
    except KafkaError as error:
        problem = error
    _describe(partition, answer, problem)
    return answer


def _describe(partition: Partition, answer: AppendedPartition, error: KafkaError | None) -> None:
    if error is not None:
        answer.error_code, answer.error_message = error.code, error.message or None
    if partition.is_leader:
        log = partition.log
        answer.log_start_offset, answer.log_end_offset = log.log_start_offset, log.log_end_offset
        answer.last_epoch, answer.leader_epoch = log.epochs.latest, partition.leader_epoch


# -- checks --------------------------------------------------------------------------------------------


def _check_state(partition: Partition, topic: MirroredTopic, data: MirroredPartition) -> None:
    _check_leader(partition, data.leader_epoch)
    mirror = partition.mirror
    if mirror is None or mirror.is_own:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{partition.topic} is not a mirror topic: only its producers write to it",
        )
    if reason := mirror.append_refusal(partition.topic, partition.index):
        raise KafkaError(ErrorCode.POLICY_VIOLATION, reason)
    if topic.source_topic_id != mirror.source_topic_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"{mirror.source_name} was deleted and recreated in cluster {mirror.source_cluster_id}",
        )


def _check_leader(partition: Partition, leader_epoch: int) -> None:
    if problem := partition.leadership_error(leader_epoch):
        raise KafkaError(
            problem, f"leader epoch {leader_epoch}, but the current one is {partition.leader_epoch}"
        )
    if not partition.can_commit:
        raise partition.why_not_writable()
    if not partition.has_enough_in_sync:
        raise partition.too_few()


# -- log start and end ----------------------------------------------------------------------------------


def _move_log(partition: Partition, data: MirroredPartition) -> None:
    """Start an empty log at the source's log start; truncate the log if requested."""
    log = partition.log
    if data.truncate_to >= 0:
        if data.expected_log_end != log.log_end_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the log ends at {log.log_end_offset}, not at {data.expected_log_end}: it is not truncated",
            )
        if (end := _cut_at(partition, data)) != log.log_end_offset:
            partition.cut_mirrored(end)
        else:
            log.forget_unwritten_epochs()
    if log.is_empty and data.source_log_start_offset > log.log_end_offset:
        partition.cut_mirrored(data.source_log_start_offset)


def _cut_at(partition: Partition, data: MirroredPartition) -> int:
    if data.truncate_epoch < 0 or data.truncate_to > partition.log.log_end_offset:
        return data.truncate_to
    return min(data.truncate_to, partition.log.epoch_end_offset(data.truncate_epoch)[1])


def _follow_source(broker: MirrorNeeds, partition: Partition, data: MirroredPartition) -> None:
    broker.mirrors.source_ends[partition] = data.source_high_watermark
    log = partition.log
    start = min(data.source_log_start_offset, log.high_watermark)
    if start > log.log_start_offset:
        log.advance_log_start(start)
        partition.log_start_moved()


# -- appending -----------------------------------------------------------------------------------------


def _append_records(
    broker: MirrorNeeds, partition: Partition, data: MirroredPartition, walks: Walks
) -> Steps[None]:
    batches = data.records
    if not batches:
        return
    end = NOT_STARTED
    for walked in walks:
        if end != NOT_STARTED:
            yield
            _check_unchanged(partition, data.leader_epoch, end)
        admitted = admit(partition.log, partition.leader_epoch, walked, data.source_log_start_offset)
        if end == NOT_STARTED:
            _begin_with(partition, admitted.walked)
        end = yield from _append_piece(broker, partition, data, batches, admitted)
    if end == NOT_STARTED:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no complete batch in {len(batches)} bytes")


def _append_piece(
    broker: MirrorNeeds,
    partition: Partition,
    data: MirroredPartition,
    batches: memoryview,
    admitted: Admitted,
) -> Steps[int]:
    """Append consecutive batches and return the new log end; raise the error of the next batch."""
    end = NOT_STARTED
    for piece in pieces(admitted.walked):
        if end != NOT_STARTED:
            yield
            _check_unchanged(partition, data.leader_epoch, end)
        partition.append_mirrored(batches, piece, broker.clock.now_ms())
        end = partition.log.log_end_offset
    if admitted.error is not None:
        raise admitted.error
    return partition.log.log_end_offset


def _begin_with(partition: Partition, walked: Walked) -> None:
    """Restart an empty log at the first batch if the log start is inside that batch."""
    first = walked[0][1].base_offset if walked else partition.log.log_end_offset
    if first < partition.log.log_end_offset:
        partition.cut_mirrored(first)


def _check_unchanged(partition: Partition, leader_epoch: int, end: int) -> None:
    """Raise unless the partition is still led here and no other writer has appended to it or truncated it."""
    _check_leader(partition, leader_epoch)
    if partition.is_retired or partition.log.log_end_offset != end:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"another mirror has written to {partition.topic_partition}: continue at its end",
        )


# -- responding -----------------------------------------------------------------------------------------


Unsafe = list[tuple[Partition, AppendedPartition]]


def _unsafe(broker: MirrorNeeds, answers: list[AppendedTopic]) -> Unsafe:
    """Acknowledged batches that are not durable yet."""
    found: Unsafe = []
    for topic in answers:
        partitions = broker.replicas.by_id.get(topic.topic_id, {})
        for answer in topic.partitions:
            partition = partitions.get(answer.index)
            if partition is None or answer.log_end_offset < 0:
                continue
            if not broker.durability.is_durable(partition, answer.log_end_offset):
                found.append((partition, answer))
    return found


async def _when_safe(
    broker: MirrorNeeds, message: AppendMirroredRequest, answers: list[AppendedTopic], unsafe: Unsafe
) -> AppendMirroredResponse:
    """Wait for durability; return REQUEST_TIMED_OUT for batches that miss the timeout."""
    waiting = {_safe(broker, partition, answer.log_end_offset): answer for partition, answer in unsafe}
    if waiting:
        await asyncio.wait(waiting, timeout=min(max(message.timeout_ms, 0) / 1000, MAX_WAIT))
    for future, answer in waiting.items():
        error = future.result() if future.done() else ErrorCode.REQUEST_TIMED_OUT
        if error and not answer.error_code:
            answer.error_code = error
        future.cancel()
    return AppendMirroredResponse(topics=answers)


def _safe(broker: MirrorNeeds, partition: Partition, end: int) -> asyncio.Future[ErrorCode]:
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def settle(error: ErrorCode) -> None:
        if not future.done():
            future.set_result(error)

    broker.durability.when(partition, end, settle)
    return future
