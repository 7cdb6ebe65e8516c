"""What to decode: a walk over the headers of fetched batches, before any record is looked at.

It costs what batches cost, not what records cost, and knows at its end where to fetch next: a reader sends that request
first and decodes while it is under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from barnabas.errors import ErrorCode, KafkaError
from barnabas.files import Bytes
from barnabas.records.aborted import AbortedTransactions
from barnabas.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_is_right, iterate_headers
from barnabas.records.columnar.decode_kernels import COUNT, PLAN_WIDTH, SMALLEST_RECORD
from barnabas.records.record import InvalidRecords, record_data

MOST_BYTES = 64 * 1024 * 1024
"""Of one decoded piece: Arrow's offsets have 31 bits, and a small fetch may hold large compressed batches."""


PlanRow: TypeAlias = tuple[int, int, int, int, int, int, int]


class Batch(NamedTuple):
    start: int  # its first byte in what was fetched
    header: BatchHeader


class Planned(NamedTuple):
    records: memoryview
    batches: list[Batch]
    next_offset: int  # where to go on, beyond markers and compacted gaps


class Piece(NamedTuple):
    """Some batches, ready for the kernel: their bytes without compression, and where each begins and ends in them."""

    source: npt.NDArray[np.uint8]
    plan: npt.NDArray[np.int64]
    batches: list[Batch]

    @property
    def most_rows(self) -> int:
        return int(self.plan[:, COUNT].sum())


def plan_batches(
    records: memoryview, first: int, until: int, aborted: tuple[tuple[int, int], ...] = ()
) -> Planned:
    """The batches with records from `first` up to, without, `until`; KafkaError when one of them is damaged.

    `aborted` are the transactions that a fetch of committed records named; empty for a reader of everything.
    """
    transactions = AbortedTransactions(aborted)
    batches: list[Batch] = []
    position = first
    for start, header in iterate_headers(records):
        if header.base_offset >= until:
            return Planned(records, batches, max(position, until))
        batch = records[start : start + header.size]
        check_batch(batch, header)
        if not transactions.hide(batch, header) and header.last_offset >= first:
            batches.append(Batch(start, header))
        position = max(position, header.next_offset)
    return Planned(records, batches, position)


def check_batch(batch: memoryview, header: BatchHeader) -> None:
    if header.magic != MAGIC:
        text = f"the batch at offset {header.base_offset} has format {header.magic}: only {MAGIC} can be read"
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, text)
    if not crc_is_right(batch, 0, header.size):
        text = f"the batch at offset {header.base_offset} is damaged (its CRC is wrong)"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)


def open_pieces(planned: Planned) -> Iterator[Piece]:
    """Batches without compression stay where they are; the others are decompressed next to one another."""
    if not planned.batches:
        return
    if any(header.compression for _, header in planned.batches):
        yield from _decompressed(planned)
        return
    rows = [_row(header, start + HEADER_SIZE, start + header.size) for start, header in planned.batches]
    yield _piece(planned.records, rows, planned.batches)


def _decompressed(planned: Planned) -> Iterator[Piece]:
    parts: list[bytes] = []
    rows: list[PlanRow] = []
    held: list[Batch] = []
    size = 0
    for batch in planned.batches:
        start, header = batch
        data = record_data(planned.records[start : start + header.size], header)
        if size and size + len(data) > MOST_BYTES:
            yield _piece(b"".join(parts), rows, held)
            parts, rows, held, size = [], [], [], 0
        parts.append(data)
        rows.append(_row(header, size, size + len(data)))
        held.append(batch)
        size += len(data)
    yield _piece(b"".join(parts), rows, held)


def _row(header: BatchHeader, start: int, end: int) -> PlanRow:
    # The kernel's arrays are as long as the records that batches announce: a lie must not cost memory.
    if not 0 <= header.record_count * SMALLEST_RECORD <= end - start:
        raise InvalidRecords(
            f"the batch at offset {header.base_offset} says it has {header.record_count} records "
            f"in {end - start} bytes"
        )
    return (
        start,
        end,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp,
        int(header.is_log_append_time),
    )


def _piece(source: Bytes, rows: list[PlanRow], batches: list[Batch]) -> Piece:
    plan = np.array(rows, np.int64).reshape(len(rows), PLAN_WIDTH)
    return Piece(np.frombuffer(source, np.uint8), plan, batches)
