"""Which batches of a source a mirror's log takes: compare, then append.

The pair (epoch of the source's leader, offset) names bytes. So a batch below the log end, of the epoch that the log has
there, is in the log already. Another epoch there means that source and mirror have diverged.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.epochs import UNDEFINED
from barnabas.log.log import Log
from barnabas.records.batch import MAGIC, BatchHeader, iterate_headers

LARGEST_OFFSET = (1 << 63) - 2


class Admitted(NamedTuple):
    """The bytes from `start` to `end` are to be appended; `error` says what is wrong with what comes next."""

    start: int
    end: int
    error: KafkaError | None


def admit(log: Log, leader_epoch: int, batches: memoryview, source_start: int = UNDEFINED) -> Admitted:
    """What of these batches follows the log. The checksums are not looked at yet.

    An empty log begins where the source's does; if that is not known, with the first batch.
    """
    start = end = 0
    log_end, last_epoch = log.log_end_offset, log.epochs.latest
    is_first = log.is_empty
    for position, header in iterate_headers(batches):
        behind = position + header.size
        try:
            _check_batch(header)
            if header.last_offset < log_end and end == start:
                _check_known(log, header)
                start = end = behind
                continue
            _check_epoch(header, last_epoch, leader_epoch)
            may_skip = log.config.compacted or (is_first and source_start == UNDEFINED)
            _check_offset(header, log_end, is_first=is_first, may_skip=may_skip)
        except KafkaError as error:
            return Admitted(start, end, error)
        log_end, last_epoch, end = header.last_offset + 1, header.leader_epoch, behind
        is_first = False
    if not end and len(batches):
        return Admitted(0, 0, _corrupt(f"there is no whole batch in {len(batches)} bytes"))
    return Admitted(start, end, None)


def _check_batch(header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"the batch at offset {header.base_offset} is of message format {header.magic}; only {MAGIC} is mirrored",
        )
    if not 0 <= header.base_offset <= header.last_offset <= LARGEST_OFFSET or header.leader_epoch < 0:
        raise _corrupt(
            f"a batch of offsets {header.base_offset} to {header.last_offset}, leader epoch {header.leader_epoch}"
        )


def _check_known(log: Log, header: BatchHeader) -> None:
    known = log.epochs.at(header.base_offset)
    if header.base_offset >= log.log_start_offset and known not in (UNDEFINED, header.leader_epoch):
        raise _diverged(
            f"offset {header.base_offset} is of epoch {known} here and of epoch {header.leader_epoch} at the source"
        )


def _check_epoch(header: BatchHeader, last_epoch: int, leader_epoch: int) -> None:
    if header.leader_epoch < last_epoch:
        raise _diverged(
            f"the batch at offset {header.base_offset} is of epoch {header.leader_epoch}, the one before it here of "
            f"epoch {last_epoch}"
        )
    if header.leader_epoch > leader_epoch:
        raise KafkaError(
            ErrorCode.NEW_LEADER_ELECTED,
            f"the batch at offset {header.base_offset} is of epoch {header.leader_epoch}: raise the leader epoch, "
            f"which is {leader_epoch}, by AlterMirrors first",
        )


def _check_offset(header: BatchHeader, log_end: int, *, is_first: bool, may_skip: bool) -> None:
    """The first batch of a log is taken whole, although the log start may lie within it."""
    if header.base_offset < log_end and not is_first:
        raise _diverged(
            f"a batch from offset {header.base_offset} to {header.last_offset}, and the log ends at {log_end}"
        )
    if header.base_offset > log_end and not may_skip:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"a gap: the log ends at {log_end}, the next batch begins at {header.base_offset}, and the topic is not "
            "compacted: the source has lost records, or has deleted them before they were mirrored",
        )


def _diverged(text: str) -> KafkaError:
    return KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"source and mirror have diverged: {text}")


def _corrupt(text: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
