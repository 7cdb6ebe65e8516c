"""Decides which batches of a source are appended to a mirror's log.

(source leader epoch, offset) identifies a batch. A batch below the log end with the epoch that the log has there is
already in the log. Another epoch means that source and mirror have diverged.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log import UNDEFINED, Log
from barnabas.records.batch import MAGIC, BatchHeader, Walked

MAX_OFFSET = (1 << 63) - 2


class Admitted(NamedTuple):
    """Batches to append; `error` describes the batch after them."""

    walked: Walked
    error: KafkaError | None


def admit(log: Log, leader_epoch: int, walked: Walked, source_start: int = UNDEFINED) -> Admitted:
    """Select the batches that continue the log. Checksums are verified later.

    An empty log starts at the source's log start; if that is unknown, at the first batch.
    """
    first = 0
    log_end, last_epoch = log.log_end_offset, log.epochs.latest
    is_first = log.is_empty
    for number, (_, header) in enumerate(walked):
        base_offset, _, epoch, magic, _, _, last_offset_delta, *_ = header
        is_next = base_offset == log_end and epoch == last_epoch <= leader_epoch and not is_first
        if not is_next or magic != MAGIC or not 0 <= last_offset_delta <= MAX_OFFSET - base_offset:
            try:
                _check_batch(header)
                if header.last_offset < log_end and number == first:
                    _check_known(log, header)
                    first += 1
                    continue
                _check_epoch(header, last_epoch, leader_epoch)
                may_skip = log.config.compacted or (is_first and source_start == UNDEFINED)
                _check_offset(header, log_end, is_first=is_first, may_skip=may_skip)
            except KafkaError as error:
                return Admitted(walked[first:number], error)
        log_end, last_epoch, is_first = base_offset + last_offset_delta + 1, epoch, False
    return Admitted(walked[first:], None)


def _check_batch(header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"the batch at offset {header.base_offset} is of message format {header.magic}; only {MAGIC} is mirrored",
        )
    if not 0 <= header.base_offset <= header.last_offset <= MAX_OFFSET or header.leader_epoch < 0:
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
    """Check continuity. The first batch of a log is taken whole, although the log start may be inside it."""
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
