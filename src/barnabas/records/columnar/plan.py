"""What to decode: a walk over the headers of fetched batches, before any record is looked at.

It costs what batches cost, not what records cost, and knows at its end where to fetch next: a reader sends that request
first and decodes while it is under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import Bytes
from barnabas.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_is_right, iterate_headers
from barnabas.records.columnar.decode_kernels import COUNT, PLAN_WIDTH, SMALLEST_RECORD
from barnabas.records.control import AbortedTransactions
from barnabas.records.record import InvalidRecords, record_data

PIECE_BYTES = 2 * 1024 * 1024
"""Of one decoded piece, unless a single batch is larger.

A piece becomes one Arrow batch, and Spark begins with it while the next is decoded. Of 1, 2, 4 and 64 MiB this was the
quickest or near it: lz4, whose fetches hold most, gained most (2 M records in 0.9 s, not 1.8, on a busy machine);
the CPU time of uncompressed records did not change beyond the noise.
"""

PlanRow: TypeAlias = tuple[int, int, int, int, int, int, int]


class Batch(NamedTuple):
    start: int  # its first byte in what was fetched
    header: BatchHeader

    @property
    def end(self) -> int:
        return self.start + self.header.size


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
    if any(header.compression for _, header in planned.batches):
        return _decompressed(planned)
    return _in_place(planned)


def _in_place(planned: Planned) -> Iterator[Piece]:
    held: list[Batch] = []
    for batch in planned.batches:
        if held and batch.end - held[0].start > PIECE_BYTES:
            yield _uncompressed_piece(planned.records, held)
            held = []
        held.append(batch)
    if held:
        yield _uncompressed_piece(planned.records, held)


def _uncompressed_piece(records: memoryview, batches: list[Batch]) -> Piece:
    first, end = batches[0].start, batches[-1].end
    rows = [_row(batch.header, batch.start - first + HEADER_SIZE, batch.end - first) for batch in batches]
    return _piece(records[first:end], rows, batches)


def _decompressed(planned: Planned) -> Iterator[Piece]:
    parts: list[bytes] = []
    rows: list[PlanRow] = []
    held: list[Batch] = []
    size = 0
    for batch in planned.batches:
        start, header = batch
        data = record_data(planned.records[start : start + header.size], header)
        if held and size + len(data) > PIECE_BYTES:
            yield _piece(b"".join(parts), rows, held)
            parts, rows, held, size = [], [], [], 0
        parts.append(data)
        rows.append(_row(header, size, size + len(data)))
        held.append(batch)
        size += len(data)
    if held:
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
