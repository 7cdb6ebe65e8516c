"""Iterators over the batches of a segment's file: headers only, or whole batches with their CRC checked."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.common.files import Bytes, ReadableFile
from barnabas.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    BatchHeader,
    crc_is_right,
    read_header,
)

LOOKUP_CHUNK = 4096  # the distance of index entries (index.interval.bytes): one read usually finds the batch
SCAN_CHUNK = 1 << 20


class BadBatch(Exception):  # noqa: N818 - the end of a walk, not always an error
    """The bytes at `position` are not a batch that continues the log."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at position {position}")
        self.position = position
        self.reason = reason


def walk_headers(
    file: ReadableFile, position: int, end: int, chunk_size: int = LOOKUP_CHUNK
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every batch in [position, end). Raise BadBatch at an invalid header."""
    chunk, start = b"", position
    while position < end:
        if position + HEADER_SIZE > start + len(chunk):
            start, chunk = position, file.read(min(chunk_size, end - position), position)
        header = plausible_header(chunk, position - start, position, end)
        yield position, header
        position += header.length + LOG_OVERHEAD


def plausible_header(chunk: Bytes, at: int, position: int, end: int) -> BatchHeader:
    if len(chunk) - at < HEADER_SIZE:
        raise BadBatch(position, f"a batch header truncated to {len(chunk) - at} bytes")
    header = read_header(chunk, at)
    if header.magic != MAGIC:
        raise BadBatch(position, f"a batch with unsupported magic {header.magic}")
    if header.length < MIN_LENGTH or header.last_offset_delta < 0 or header.base_offset < 0:
        raise BadBatch(position, "a batch with an invalid header")
    if position + header.size > end:
        raise BadBatch(position, f"a batch of {header.size} bytes truncated to {end - position}")
    return header


def walk_batches(
    file: ReadableFile, position: int, end: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield (position, header, bytes) of every batch, with its CRC checked. Raise BadBatch at the first invalid one."""
    chunk, start = memoryview(b""), position
    while position < end:
        if position + HEADER_SIZE > start + len(chunk):
            start, chunk = position, memoryview(file.read(min(SCAN_CHUNK, end - position), position))
        header = plausible_header(chunk, position - start, position, end)
        if position + header.size > start + len(chunk):
            size = min(max(SCAN_CHUNK, header.size), end - position)
            start, chunk = position, memoryview(file.read(size, position))
        at = position - start
        if not crc_is_right(chunk, at, header.size):
            raise BadBatch(position, "a batch with a wrong checksum")
        yield position, header, chunk[at : at + header.size]
        position += header.size
