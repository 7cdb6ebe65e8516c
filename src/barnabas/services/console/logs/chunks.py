"""Chunks of rows: in memory while small, then immutable memory-mapped files.

A file contains one Arrow record batch; its schema metadata holds the read position of every partition at the time of
writing. Files are written under a temporary name, flushed and renamed, so that a file is complete or missing.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.ipc

from barnabas.common.files import private_opener
from barnabas.services.console.logs.columns import SCHEMA, milliseconds

SUFFIX = ".arrow"
UNFINISHED = ".unfinished"
_METADATA = b"barnabas"


class DamagedChunkError(Exception):
    """The file is incomplete or not a chunk file."""


class TopicPositions(msgspec.Struct):
    """Read positions of a topic. A recreated topic has another id."""

    id: str
    next: dict[int, int] = {}
    """By partition."""


Positions = dict[str, TopicPositions]


class About(msgspec.Struct):
    """Metadata of a file."""

    first_row: int
    earliest: int
    latest: int
    positions: Positions


class LogChunk(NamedTuple):
    rows: pa.RecordBatch
    first_row: int
    """Number of the first row, counted from the first row ever stored."""
    earliest: int
    latest: int
    """Timestamps of the oldest and newest line, in milliseconds."""
    path: Path | None = None
    size: int = 0

    @property
    def end_row(self) -> int:
        return self.first_row + int(self.rows.num_rows)


def chunk_of(rows: pa.RecordBatch, first_row: int) -> LogChunk:
    times = milliseconds(rows.column("time"))
    return LogChunk(rows, first_row, int(times.min()), int(times.max()))


def write_chunk(folder: Path, chunk: LogChunk, positions: Positions, now: float) -> LogChunk:
    """Write the chunk to a file and return it memory-mapped."""
    hour = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d%H")
    path = folder / f"{chunk.first_row:015d}-{hour}{SUFFIX}"
    aside = path.with_suffix(UNFINISHED)
    about = About(chunk.first_row, chunk.earliest, chunk.latest, positions)
    schema = SCHEMA.with_metadata({_METADATA: msgspec.json.encode(about)})
    with open(aside, "wb", opener=private_opener) as file:
        with pa.ipc.new_file(file, schema) as writer:
            writer.write_batch(chunk.rows)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    _flush_folder(folder)
    return read_chunk(path)[0]


def read_chunk(path: Path) -> tuple[LogChunk, Positions]:
    """Map a chunk file. DamagedChunkError if it is incomplete or not a chunk file."""
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            if reader.schema.remove_metadata() != SCHEMA:
                raise DamagedChunkError(f"{path} has other columns")
            about = msgspec.json.decode((reader.schema.metadata or {})[_METADATA], type=About)
            rows = reader.get_batch(0)
        rows.validate()
    except (pa.ArrowException, OSError, KeyError, msgspec.MsgspecError) as error:
        raise DamagedChunkError(f"{path} cannot be read: {error}") from error
    chunk = LogChunk(rows, about.first_row, about.earliest, about.latest, path, path.stat().st_size)
    return chunk, about.positions


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
