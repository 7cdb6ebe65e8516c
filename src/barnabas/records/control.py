"""Control batches: the markers that end transactions, and the filter for aborted batches.

The key of a control record holds version and type, the value version and coordinator epoch, all big-endian with a
fixed size.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case
from typing import NamedTuple

from barnabas.records.batch import BatchHeader
from barnabas.records.builder import NO_LEADER_EPOCH, build_batch
from barnabas.records.record import InvalidRecords, Record, iterate_records

_KEY = Struct(">hh")  # version, type
_MARKER = Struct(">hi")  # version, coordinator epoch
_VERSION = 0


class ControlType(IntEnum):
    """Type of a control record. Brokers write the first two; the others belong to KRaft."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_KNOWN_TYPES = frozenset(ControlType)  # `2 in ControlType` raises before Python 3.12


class EndTransactionMarker(NamedTuple):
    """The end of one producer's transaction in one partition."""

    committed: bool
    coordinator_epoch: int


def end_transaction_marker(
    producer_id: int,
    producer_epoch: int,
    marker: EndTransactionMarker,
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Build the batch with the one record that commits or aborts a producer's transaction."""
    kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
    key, value = _KEY.pack(_VERSION, kind), _MARKER.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )


def control_type(record: Record) -> ControlType | None:
    """Type of a control record; None for an unknown type, which readers skip."""
    try:
        version, kind = _KEY.unpack_from(record.key or b"")
    except StructError:
        raise InvalidRecords(f"the control record at offset {record.offset} has no type in its key") from None
    if version < 0:
        raise InvalidRecords(f"the control record at offset {record.offset} has version {version}")
    return ControlType(kind) if kind in _KNOWN_TYPES else None


def parse_end_transaction(record: Record) -> EndTransactionMarker | None:
    """The marker in a control record; None for another type of control record."""
    kind = control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    try:
        _, coordinator_epoch = _MARKER.unpack_from(record.value or b"")
    except StructError:
        raise InvalidRecords(f"the marker at offset {record.offset} has no coordinator epoch") from None
    return EndTransactionMarker(kind is ControlType.COMMIT, coordinator_epoch)


class AbortedTransactions:
    """Tracks, in log order, which producers are inside an aborted transaction.

    `aborted`: (producer id, first offset) in offset order, as in a Fetch response. Empty for read_uncommitted,
    which hides control batches only.
    """

    def __init__(self, aborted: tuple[tuple[int, int], ...]) -> None:
        self._coming = deque(aborted)
        self._open: set[int] = set()

    def hide(self, batch: memoryview, header: BatchHeader) -> bool:
        """Return True if consumers must not see the batch: a marker, or part of an aborted transaction."""
        while self._coming and self._coming[0][1] <= header.last_offset:
            self._open.add(self._coming.popleft()[0])
        if header.is_control:
            self._end(batch, header)
            return True
        return header.is_transactional and header.producer_id in self._open

    def _end(self, batch: memoryview, header: BatchHeader) -> None:
        for record in iterate_records(batch, header):
            if parse_end_transaction(record) is not None:
                self._open.discard(header.producer_id)
