"""AppendMirrored, version 0: batches of another cluster are appended with their offsets and epochs.

Each partition by itself. What was appended is acknowledged when it is as safe as acks=all (`replication/safety`).
About a MiB is appended at once, from where it was received. More, or many small batches, is copied and appended in
turns, between which others run: each looks again at who leads and where the log ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.common.clock import Clock
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
from barnabas.replication.follower import PIECE_BATCHES, PIECE_BYTES, pieces
from barnabas.replication.mirrored import admit
from barnabas.replication.mirrors import Mirrors
from barnabas.replication.partition import Partition
from barnabas.replication.safety import Durability
from barnabas.common.cooperative import Steps, finish

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Request

LONGEST_WAIT = 60.0  # seconds, whatever a client asks for
NOT_STARTED = -1
EMPTY = memoryview(b"")


class MirrorNeeds(HasReplicas, Protocol):
    """What AppendMirrored needs of the broker."""

    @property
    def clock(self) -> Clock: ...
    @property
    def mirrors(self) -> Mirrors: ...
    @property
    def safety(self) -> Durability: ...


def append_mirrored(
    broker: MirrorNeeds, request: Request, message: AppendMirroredRequest
) -> AppendMirroredResponse | Coroutine[Any, Any, AppendMirroredResponse]:
    walks = _walk_small(message)
    if walks is None:
        return _append_in_turns(broker, message)
    answers = finish(_append_all(broker, message, walks))
    unsafe = _unsafe(broker, answers)
    return _when_safe(broker, message, answers, unsafe) if unsafe else AppendMirroredResponse(topics=answers)


def _walk_small(message: AppendMirroredRequest) -> list[Walked] | None:
    """The batches for each partition in turn; None if they are too many for one turn of the loop."""
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
    for data in _partitions(message):
        if data.records is not None:  # the receive buffer is used again while we wait
            data.records = memoryview(bytes(data.records))
    walks = (list(iterate_headers(data.records or EMPTY)) for data in _partitions(message))
    steps = _append_all(broker, message, walks)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answers: list[AppendedTopic] = end.value
            return await _when_safe(broker, message, answers, _unsafe(broker, answers))
        await asyncio.sleep(0)


def _append_all(
    broker: MirrorNeeds, message: AppendMirroredRequest, walks: Iterable[Walked]
) -> Steps[list[AppendedTopic]]:
    answers, walked = [], iter(walks)
    for topic in message.topics:
        answer = AppendedTopic(topic.topic_id, [])
        for data in topic.partitions:
            answer.partitions.append((yield from _append(broker, topic, data, next(walked))))
        answers.append(answer)
    return answers


def _append(
    broker: MirrorNeeds, topic: MirroredTopic, data: MirroredPartition, walked: Walked
) -> Steps[AppendedPartition]:
    answer = AppendedPartition(index=data.index)
    partition = broker.replicas.by_id.get(topic.topic_id, {}).get(data.index)
    if partition is None:
        answer.error_code = broker.replicas.why_missing("", topic.topic_id, data.index)
        return answer
    try:
        _check_state(partition, topic, data)
        _move_log(partition, data)
        yield from _append_records(broker, partition, data, walked)
        _follow_source(broker, partition, data)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message or None
    _describe(partition, answer)
    return answer


def _describe(partition: Partition, answer: AppendedPartition) -> None:
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
            f"{partition.topic} is no mirror: nothing is written to it but by its clients",
        )
    if why := mirror.why_not_mirrored(partition.topic, partition.index):
        raise KafkaError(ErrorCode.POLICY_VIOLATION, why)
    if topic.source_topic_id != mirror.source_topic_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"{mirror.source_name} was deleted and created again in cluster {mirror.source_cluster_id}",
        )


def _check_leader(partition: Partition, leader_epoch: int) -> None:
    if problem := partition.leadership_error(leader_epoch):
        raise KafkaError(problem, f"leader epoch {leader_epoch}, and here it is {partition.leader_epoch}")
    if not partition.can_commit:
        raise partition.why_not_writable()
    if not partition.has_enough_in_sync:
        raise partition.too_few()


# -- where the log begins and ends ---------------------------------------------------------------------


def _move_log(partition: Partition, data: MirroredPartition) -> None:
    """An empty log begins where the source's does; one that is to be cut is cut."""
    log = partition.log
    if data.truncate_to >= 0:
        if data.expected_log_end != log.log_end_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the log ends at {log.log_end_offset}, not at {data.expected_log_end}: it is not cut",
            )
        if (end := _cut_at(partition, data)) != log.log_end_offset:
            partition.cut_mirrored(end)
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
    broker: MirrorNeeds, partition: Partition, data: MirroredPartition, walked: Walked
) -> Steps[None]:
    batches = data.records
    if not batches:
        return
    if not walked:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"there is no whole batch in {len(batches)} bytes")
    admitted = admit(partition.log, partition.leader_epoch, walked, data.source_log_start_offset)
    _begin_with(partition, admitted.walked)
    end = NOT_STARTED
    for piece in pieces(admitted.walked):
        if end != NOT_STARTED:
            yield
            _check_unchanged(partition, data.leader_epoch, end)
        partition.append_mirrored(batches, piece, broker.clock.now_ms())
        end = partition.log.log_end_offset
    if admitted.error is not None:
        raise admitted.error


def _begin_with(partition: Partition, walked: Walked) -> None:
    """If nothing is left of a log, and its start lies within the first batch, it begins again with that."""
    first = walked[0][1].base_offset if walked else partition.log.log_end_offset
    if first < partition.log.log_end_offset:
        partition.cut_mirrored(first)


def _check_unchanged(partition: Partition, leader_epoch: int, end: int) -> None:
    """While others ran: is it still led here, and has nobody else appended to it, or cut it?"""
    _check_leader(partition, leader_epoch)
    if partition.is_retired or partition.log.log_end_offset != end:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"another mirror has written to {partition.topic_partition}: go on there",
        )


# -- answering -----------------------------------------------------------------------------------------


Unsafe = list[tuple[Partition, AppendedPartition]]


def _unsafe(broker: MirrorNeeds, answers: list[AppendedTopic]) -> Unsafe:
    """What the answers tell and is not safe yet."""
    found: Unsafe = []
    for topic in answers:
        partitions = broker.replicas.by_id.get(topic.topic_id, {})
        for answer in topic.partitions:
            partition = partitions.get(answer.index)
            if partition is None or answer.log_end_offset < 0:
                continue
            if not broker.safety.is_safe(partition, answer.log_end_offset):
                found.append((partition, answer))
    return found


async def _when_safe(
    broker: MirrorNeeds, message: AppendMirroredRequest, answers: list[AppendedTopic], unsafe: Unsafe
) -> AppendMirroredResponse:
    """What is not safe in time is REQUEST_TIMED_OUT."""
    waiting = {_safe(broker, partition, answer.log_end_offset): answer for partition, answer in unsafe}
    if waiting:
        await asyncio.wait(waiting, timeout=min(max(message.timeout_ms, 0) / 1000, LONGEST_WAIT))
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

    broker.safety.when_safe(partition, end, settle)
    return future
