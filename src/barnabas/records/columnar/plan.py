"""Plans the decoding of a fetch from the batch headers only.

The cost depends on the number of batches, not of records. The plan gives the next fetch offset, so that a reader
can send the next request before it decodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import Bytes
from barnabas.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_is_right, iterate_headers
from barnabas.records.columnar.decode_kernels import COUNT, MIN_RECORD, PLAN_WIDTH
from barnabas.records.control import AbortedTransactions
from barnabas.records.record import InvalidRecords, record_data

PIECE_BYTES = 2 * 1024 * 1024
"""Size of one decoded piece, unless a single batch is larger.

A piece becomes one Arrow batch, and Spark processes it while the next one is decoded. Of 1, 2, 4 and 64 MiB this
was the fastest or close to it: lz4, with the most records per fetch, gained most (2 M records in 0.9 s instead of
1.8 on a busy machine); the CPU time of uncompressed records did not change beyond the noise.
"""

PlanRow: TypeAlias = tuple[int, int, int, int, int, int, int]


class PlannedBatch(NamedTuple):
    start: int  # position in the fetched bytes
    header: BatchHeader

    @property
    def end(self) -> int:
        return self.start + self.header.size


class DecodePlan(NamedTuple):
    records: memoryview
    batches: list[PlannedBatch]
    next_offset: int  # the next fetch offset, after markers and compacted gaps


class Piece(NamedTuple):
    """Batches ready for the kernel: their uncompressed bytes, and the start and end of each."""

    source: npt.NDArray[np.uint8]
    plan: npt.NDArray[np.int64]
    batches: list[PlannedBatch]

    @property
    def max_rows(self) -> int:
        return int(self.plan[:, COUNT].sum())


def plan_batches(
    records: memoryview, first: int, until: int, aborted: tuple[tuple[int, int], ...] = ()
) -> DecodePlan:
    """Plan the batches with records in [first, until); KafkaError if one of them is corrupt.

    `aborted` are the aborted transactions of a read_committed fetch; empty for read_uncommitted.
    """
    transactions = AbortedTransactions(aborted)
    batches: list[PlannedBatch] = []
    position = first
    for start, header in iterate_headers(records):
        if header.base_offset >= until:
            return DecodePlan(records, batches, max(position, until))
        batch = records[start : start + header.size]
        check_batch(batch, header)
        if not transactions.hide(batch, header) and header.last_offset >= first:
            batches.append(PlannedBatch(start, header))
        position = max(position, header.next_offset)
    return DecodePlan(records, batches, position)


def check_batch(batch: memoryview, header: BatchHeader) -> None:
    if header.magic != MAGIC:
        text = f"the batch at offset {header.base_offset} has magic {header.magic}: only {MAGIC} is supported"
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, text)
    if not crc_is_right(batch, 0, header.size):
        text = f"the batch at offset {header.base_offset} is corrupt (CRC mismatch)"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)


def open_pieces(planned: DecodePlan) -> Iterator[Piece]:
    """Uncompressed batches are used in place; others are decompressed into one buffer."""
    if any(header.compression for _, header in planned.batches):
        return _decompressed(planned)
    return _in_place(planned)


def _in_place(planned: DecodePlan) -> Iterator[Piece]:
    held: list[PlannedBatch] = []
    for batch in planned.batches:
        if held and batch.end - held[0].start > PIECE_BYTES:
            yield _uncompressed_piece(planned.records, held)
            held = []
        held.append(batch)
    if held:
        yield _uncompressed_piece(planned.records, held)


def _uncompressed_piece(records: memoryview, batches: list[PlannedBatch]) -> Piece:
    first, end = batches[0].start, batches[-1].end
    rows = [_row(batch.header, batch.start - first + HEADER_SIZE, batch.end - first) for batch in batches]
    return _piece(records[first:end], rows, batches)


def _decompressed(planned: DecodePlan) -> Iterator[Piece]:
    parts: list[bytes] = []
    rows: list[PlanRow] = []
    held: list[PlannedBatch] = []
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
    # The kernel's arrays are sized by the declared record count: check it before allocating.
    if not 0 <= header.record_count * MIN_RECORD <= end - start:
        raise InvalidRecords(
            f"the batch at offset {header.base_offset} declares {header.record_count} records "
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


def _piece(source: Bytes, rows: list[PlanRow], batches: list[PlannedBatch]) -> Piece:
    plan = np.array(rows, np.int64).reshape(len(rows), PLAN_WIDTH)
    return Piece(np.frombuffer(source, np.uint8), plan, batches)
