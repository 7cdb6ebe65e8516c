"""Applies a leader's fetch responses to a follower's log: append, or truncate diverging records first (KIP-101,
KIP-279).

Nothing is truncated before the leader has returned the end offset of the epoch. A follower whose last epoch ended
earlier at the leader holds uncommitted records; these are truncated, and fetching continues from there.

Many small batches are appended in slices. Between slices the partition may get another leader, become leader, or be
truncated; the rest of the response is then dropped, and the next fetch names the new log end.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.common.safe_logging import safe_logger
from barnabas.log import Log
from barnabas.protocol.messages.fetch import PartitionData
from barnabas.protocol.schema import Records
from barnabas.records.batch import Walked, iterate_headers
from barnabas.replication.partition import NO_EPOCH, Partition

logger = safe_logger(__name__)

PIECE_BYTES = 1 << 20
PIECE_BATCHES = 128
"""Bytes appended per turn of the loop: about a millisecond."""


def pieces(walked: Walked, piece_bytes: int = PIECE_BYTES) -> Iterator[Walked]:
    """Split batches into pieces of about `piece_bytes` with a bounded number of batches."""
    first = start = 0
    for number, (position, header) in enumerate(walked):
        if number == first:
            start = position
        elif position + header.size - start > piece_bytes or number - first >= PIECE_BATCHES:
            yield walked[first:number]
            first, start = number, position
    if walked:
        yield walked[first:]


def size_of(piece: Walked) -> int:
    """Bytes of contiguous batches."""
    last, header = piece[-1]
    return last + header.size - piece[0][0]


def take(
    partition: Partition, data: PartitionData, now_ms: int, piece_bytes: int = PIECE_BYTES
) -> Iterator[int]:
    """Apply a response without an error, in steps that yield the bytes appended."""
    if data.diverging_epoch.epoch != NO_EPOCH:
        cut_to(partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        return
    for size in _append(partition, data.records, now_ms, piece_bytes) if data.records else ():
        before = _state(partition)
        yield size
        if _state(partition) != before:
            return
    partition.followed_to(data.high_watermark)
    start = min(data.log_start_offset, partition.log.high_watermark)
    if start > partition.log.log_start_offset:
        partition.log.advance_log_start(start)


def _state(partition: Partition) -> tuple[object, ...]:
    """State that must not change between two steps."""
    log = partition.log
    return (
        partition.is_retired,
        partition.is_leader,
        partition.leader_epoch,
        log.log_end_offset,
        log.generation,
    )


def lower_recovery_point(partition: Partition, data: PartitionData) -> None:
    """Lower the recovery point before a truncation. Lowering those of all partitions of a response first writes the
    checkpoint once."""
    if data.diverging_epoch.epoch != NO_EPOCH and not data.error_code:
        agreed = agreed_end(partition.log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        partition.log.lower_recovery_point(agreed)


def _append(partition: Partition, records: Records, now_ms: int, piece_bytes: int) -> Iterator[int]:
    batches = memoryview(records)
    walked = list(iterate_headers(batches))
    if not walked:
        partition.log.append_as_follower(batches, now_ms)  # which reports the error
    for piece in pieces(walked, piece_bytes):
        partition.log.append_as_follower(batches, now_ms, piece)
        yield size_of(piece)


def cut_to(partition: Partition, leader_epoch: int, leader_end: int) -> None:
    """Truncate to the offset where both logs agree: the end of the leader's epoch, or of ours if that is smaller."""
    log = partition.log
    agreed = agreed_end(log, leader_epoch, leader_end)
    if agreed < log.high_watermark:
        logger.warning(
            "%s: the leader's log ends at %d, below our high watermark %d: an unclean election has lost records",
            partition.topic_partition,
            agreed,
            log.high_watermark,
        )
    logger.info("%s: cut from %d to %d", partition.topic_partition, log.log_end_offset, agreed)
    log.truncate_to(agreed)


def agreed_end(log: Log, leader_epoch: int, leader_end: int) -> int:
    own_epoch, own_end = log.epoch_end_offset(leader_epoch)
    if own_epoch == NO_EPOCH:
        return min(leader_end, log.log_end_offset)
    # Our epoch may be older than the leader's answer: its end here is the largest offset known to agree.
    ends = (own_end, leader_end) if own_epoch == leader_epoch else (own_end,)
    return min(*ends, log.log_end_offset)


def start_again_at(partition: Partition, log_start: int) -> None:
    """Restart the log at the leader's log start, because the leader no longer has the next records."""
    log = partition.log
    logger.warning(
        "%s: the leader's log starts at %d, ours ends at %d: restarting there",
        partition.topic_partition,
        log_start,
        log.log_end_offset,
    )
    log.truncate_fully_and_start_at(log_start, in_background=True)
    partition.followed_to(log_start)
