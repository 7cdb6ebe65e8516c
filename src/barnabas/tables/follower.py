"""Follow a topic: yield new records repeatedly; with a checkpoint, also across restarts of the process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from barnabas.client.offsets import OffsetRange
from barnabas.common.types import TopicPartition
from barnabas.tables.errors import TableError
from barnabas.tables.reader import Statistics
from barnabas.tables.scan import TableScan
from barnabas.tables.sources import Snapshot

if TYPE_CHECKING:
    from barnabas.tables.table import Table

IDLE_SECONDS = 0.5

Positions = dict[TopicPartition, int]


class NewRows(NamedTuple):
    rows: pa.Table
    positions: Positions


def follow(table: Table, columns: list[str], checkpoint: str | None, once: bool) -> Iterator[pa.Table]:
    """The checkpoint advances when the caller asks for the next table: an unprocessed table is delivered again."""
    path = None if checkpoint is None else Path(checkpoint)
    known = {} if path is None else read_checkpoint(path, table.topic)
    scan: TableScan[NewRows] = TableScan(lambda: _news(table, columns, known, once))
    try:
        for news in scan:
            if news.rows.num_rows:
                yield news.rows
            if path is not None:
                write_checkpoint(path, table.topic, news.positions)
    finally:
        scan.close()


async def _news(
    table: Table, columns: list[str], known: Positions, once: bool
) -> AsyncGenerator[NewRows, None]:
    schema = table.shape.select(columns).schema
    positions = dict(known)
    while True:
        source = await table.open_source()  # open again each time, to see new segments and offsets
        try:
            ranges = new_ranges(await table.snapshot(source), positions)
            rows = [batch async for batch in table.rows(source, ranges, columns, Statistics())]
        finally:
            await source.close()
        positions |= {offset_range.tp: offset_range.until for offset_range in ranges}
        if ranges:
            yield NewRows(pa.Table.from_batches(rows, schema), dict(positions))
        elif not once:
            await asyncio.sleep(IDLE_SECONDS)
        if once:
            return


def new_ranges(snapshot: Snapshot, positions: Positions) -> list[OffsetRange]:
    """Raises TableError if unread records were deleted, or the topic was recreated."""
    found = []
    for tp, (first, until) in snapshot.items():
        position = positions.get(tp, first)
        if tp in positions and not first <= position <= until:
            raise TableError(
                f"{tp} holds offsets {first} to {until}, but the next offset is {position}: records were deleted, "
                "or the topic was recreated. Delete the checkpoint to start over"
            )
        if until > position:
            found.append(OffsetRange(tp, position, until))
    return found


def read_checkpoint(path: Path, topic: str) -> Positions:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    try:
        found = json.loads(text)
        positions = {
            TopicPartition(topic, int(index)): int(offset) for index, offset in found["offsets"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableError(f"{path} is not a table checkpoint: {error}") from error
    if found.get("topic") != topic:
        raise TableError(f"{path} is the checkpoint of {found.get('topic')}, not of {topic}")
    return positions


def write_checkpoint(path: Path, topic: str, positions: Positions) -> None:
    """Replace the file atomically."""
    offsets = {str(tp.partition): offset for tp, offset in sorted(positions.items())}
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w") as file:
        json.dump({"topic": topic, "offsets": offsets}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
