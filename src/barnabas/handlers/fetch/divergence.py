"""Divergence of a reader's log from the leader's, by leader epochs (KIP-320, KIP-595)."""

from __future__ import annotations

from typing import Final

from barnabas.common.errors import ErrorCode
from barnabas.log import Log
from barnabas.protocol.messages.fetch import EpochEndOffset, FetchPartition, PartitionData
from barnabas.replication import NO_EPOCH, FetchEntry, Partition

UNKNOWN_OFFSET: Final = -1


def diverges(entry: FetchEntry | FetchPartition, log: Log, data: PartitionData) -> bool:
    """Return whether a reader's log diverges, which its response then says."""
    found = divergence(log, entry.last_fetched_epoch, entry.fetch_offset)
    if found is None:
        return False
    if found.epoch == NO_EPOCH:
        data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        data.high_watermark = data.last_stable_offset = data.log_start_offset = UNKNOWN_OFFSET
    else:
        data.diverging_epoch = found
    return True


def has_all_before(partition: Partition, replica: int, wanted: FetchPartition) -> bool:
    """Return whether this follower may fetch from there, and its log matches this one up to there.

    The empty log of a former mirror leader may start above that offset: it only asks for the log start.
    """
    log = partition.log
    return (
        not partition.leadership_error(wanted.current_leader_epoch)
        and partition.is_assigned(replica)
        and wanted.log_start_offset <= wanted.fetch_offset
        and log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset
        and divergence(log, wanted.last_fetched_epoch, wanted.fetch_offset) is None
    )


def divergence(log: Log, last_epoch: int, offset: int) -> EpochEndOffset | None:
    """Return the end of the reader's last epoch here, if that is earlier: it has records that this leader
    never had (KIP-595). The epoch is -1 when this leader does not know it.
    """
    if last_epoch == NO_EPOCH or (last_epoch == log.epochs.latest and offset <= log.log_end_offset):
        return None
    epoch, end_offset = log.epoch_end_offset(last_epoch)
    if epoch == last_epoch and end_offset >= offset:
        return None
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)
