"""Offsets of partitions: log start and end, offsets by timestamp or epoch, and deleting records.

ListOffsets versions 1 to 11: timestamp -1 is the end visible to the reader, -2 the start, -3 the record with the
largest timestamp, -4 the start on local disk, -5 the last remote offset, -6 the first that is not remote yet. Clients
that send the Barnabas tag also get the progress of copying (protocol/messages/tiers.py).
OffsetForLeaderEpoch versions 2 to 4. DeleteRecords versions 0 to 2.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.needs import HasImage, HasReplicas, HasThreads, led_partition
from barnabas.log import Log
from barnabas.protocol.messages.offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from barnabas.protocol.messages.tiers import PartitionTier
from barnabas.protocol.messages.topics import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from barnabas.replication import ColdReads, Partition

if TYPE_CHECKING:
    from barnabas.network.requests import Request

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SPECIAL_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""First version of ListOffsets with each special timestamp: KIP-734, KIP-405, KIP-1005, KIP-1023."""
UNKNOWN = -1
READ_COMMITTED = 1
LEADER_EPOCH_SINCE = 4
NOT_AVAILABLE_SINCE = 5  # KIP-207
HIGH_WATERMARK = -1  # in DeleteRecords: everything that is committed


class OffsetTiering(Protocol):
    def describe(self, log: Log) -> PartitionTier:
        """Return the remote part of a log whose partition is led here."""
        ...


class OffsetsNeeds(HasImage, HasReplicas, HasThreads, Protocol):
    """Broker attributes used by the offset handlers."""

    @property
    def page_cache(self) -> ColdReads: ...
    @property
    def tiering(self) -> OffsetTiering: ...


class OffsetResult(NamedTuple):
    offset: int = UNKNOWN
    timestamp: int = UNKNOWN
    leader_epoch: int = UNKNOWN


RemoteOffsets = dict[tuple[str, int], OffsetResult | KafkaError | None]


async def list_offsets(
    broker: OffsetsNeeds, request: Request, message: ListOffsetsRequest
) -> ListOffsetsResponse:
    named = Counter(
        (topic.name, wanted.partition_index) for topic in message.topics for wanted in topic.partitions
    )
    committed_only = message.isolation_level == READ_COMMITTED
    remote = await _search_remote(broker, message)
    is_consumer = message.replica_id < 0
    topics = []
    for topic in message.topics:
        partitions = []
        for wanted in {wanted.partition_index: wanted for wanted in topic.partitions}.values():
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            if named[topic.name, wanted.partition_index] > 1:
                answer.error_code = ErrorCode.INVALID_REQUEST
            elif request.version < SPECIAL_SINCE.get(wanted.timestamp, 0):
                answer.error_code = ErrorCode.UNSUPPORTED_VERSION
            else:
                await _fill(broker, topic.name, wanted, committed_only, is_consumer, answer, remote)
                if (
                    answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
                    and request.version < NOT_AVAILABLE_SINCE
                ):
                    answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE
                if request.version < LEADER_EPOCH_SINCE:
                    answer.leader_epoch = UNKNOWN
                if message.barnabas_tiers and not answer.error_code:
                    answer.barnabas_tier = _tier(broker, topic.name, wanted)
            partitions.append(answer)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _fill(
    broker: OffsetsNeeds,
    topic: str,
    wanted: ListOffsetsPartition,
    committed_only: bool,
    is_consumer: bool,
    answer: ListOffsetsPartitionResponse,
    remote: RemoteOffsets,
) -> None:
    try:
        partition = led_partition(broker, topic, wanted.partition_index, wanted.current_leader_epoch)
        end_was_known = partition.end_is_known
        before = remote.get((topic, wanted.partition_index))
        if isinstance(before, KafkaError):
            raise before
        found = before or await _find(broker, partition.log, wanted.timestamp, committed_only, is_consumer)
        if not end_was_known and (wanted.timestamp == LATEST or _may_come(wanted.timestamp, found)):
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE, "the new leader does not know the high watermark yet"
            )
    except KafkaError as error:
        answer.error_code = error.code
        return
    answer.offset, answer.timestamp, answer.leader_epoch = found


async def _find(
    broker: OffsetsNeeds, log: Log, timestamp: int, committed_only: bool, is_consumer: bool
) -> OffsetResult:
    upper = log.last_stable_offset if committed_only else log.high_watermark
    if timestamp == LATEST:
        return OffsetResult(upper, UNKNOWN, log.epochs.latest)
    if timestamp == EARLIEST:
        return _at_offset(log, log.log_start_offset)
    if timestamp == EARLIEST_LOCAL:
        return _at_offset(log, log.local_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        match = _last_tiered(log) if timestamp == LATEST_TIERED else _first_pending(log)
        return (
            OffsetResult() if is_consumer and match.offset >= upper else match
        )  # a follower's end may be visible
    if timestamp < EARLIEST_PENDING_UPLOAD:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"unknown special timestamp {timestamp}")
    # Searching a batch may read from the disk and decompress: not on the loop.
    if timestamp == MAX_TIMESTAMP:
        found = await broker.in_thread(log.max_timestamp_offset)
    else:
        found = await broker.in_thread(lambda: log.offset_for_timestamp(timestamp))
    return OffsetResult(*found) if found is not None and found[0] < upper else OffsetResult()


async def _search_remote(broker: OffsetsNeeds, message: ListOffsetsRequest) -> RemoteOffsets:
    """Search remote segments by timestamp before the local log. All partitions at once (KIP-1075)."""
    searches = {}
    for topic in message.topics if broker.page_cache.has_remote else ():
        for wanted in topic.partitions:
            try:
                partition = led_partition(
                    broker, topic.name, wanted.partition_index, wanted.current_leader_epoch
                )
            except KafkaError:
                continue  # reported with its partition
            if wanted.timestamp >= 0 and partition.log.remote_part is not None:
                tp = topic.name, wanted.partition_index
                searches[tp] = _search(broker.page_cache, partition, wanted.timestamp, message.timeout_ms)
    return dict(zip(searches, await asyncio.gather(*searches.values()), strict=True))


async def _search(
    page_cache: ColdReads, partition: Partition, timestamp: int, timeout_ms: int
) -> OffsetResult | KafkaError | None:
    try:
        record = await page_cache.remote_offset_for_timestamp(partition, timestamp, timeout_ms)
    except KafkaError as error:
        return error
    return OffsetResult(*record) if record is not None else None


def _tier(broker: OffsetsNeeds, topic: str, wanted: ListOffsetsPartition) -> PartitionTier:
    try:
        return broker.tiering.describe(led_partition(broker, topic, wanted.partition_index, epoch=-1).log)
    except KafkaError:
        return PartitionTier()  # leadership has just changed


def _at_offset(log: Log, offset: int) -> OffsetResult:
    return OffsetResult(offset, UNKNOWN, log.epochs.at(offset))


def _last_tiered(log: Log) -> OffsetResult:
    """KIP-1005."""
    is_known = log.config.remote_storage_enable and log.is_tiered
    return _at_offset(log, log.offsets.tiered_end - 1) if is_known else OffsetResult()


def _first_pending(log: Log) -> OffsetResult:
    """KIP-1023: unknown while a leader does not know yet which segments are remote."""
    if not log.config.remote_storage_enable or (not log.is_tiered and log.remote_part is not None):
        return OffsetResult()
    return _at_offset(log, max(log.offsets.tiered_end, log.log_start_offset))


def _may_come(timestamp: int, found: OffsetResult) -> bool:
    """Return whether a search by timestamp found nothing below the high watermark of a new leader, which may
    still rise: an earlier leader may have returned a record above it (KIP-207).
    """
    return found.offset == UNKNOWN and (timestamp >= 0 or timestamp == MAX_TIMESTAMP)


def offset_for_leader_epoch(
    broker: OffsetsNeeds, request: Request, message: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_epoch_end(broker, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _epoch_end(broker: OffsetsNeeds, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        log = led_partition(broker, topic, wanted.partition, wanted.current_leader_epoch).log
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    epoch, end_offset = log.epoch_end_offset(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


def delete_records(
    broker: OffsetsNeeds, request: Request, message: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete_before(broker, topic.name, wanted.partition_index, wanted.offset)
                    for wanted in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _delete_before(broker: OffsetsNeeds, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        partition = led_partition(broker, topic, index, epoch=-1)
        log = partition.log
        if partition.counters.is_internal:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "records of internal topics cannot be deleted"
            )
        if not partition.is_writable:  # a mirror: its log start is that of its source
            raise partition.why_not_writable()
        if not log.config.deletes:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{topic} is compacted only: set cleanup.policy to delete"
            )
        target = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= target <= log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the high watermark of {topic}-{index}"
            )
        log.advance_log_start(target)
        partition.log_start_moved()
    except KafkaError as error:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=error.code)
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=log.log_start_offset)
