"""Looking into the records of a share partition, off the loop: for dead letters and for delayed delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.log import FileSlice, Log
from barnabas.records.batch import iterate_headers
from barnabas.records.record import Record, iterate_records

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

READ_BYTES = 256 << 10  # at a time; a thread that decodes more would keep the loop waiting


async def read_records(broker: Broker, log: Log, first: int, last: int) -> tuple[list[Record], int]:
    """Records from `first` on, up to `last` or until enough is read; and the last offset that was looked at."""
    if first < log.log_start_offset:
        first = log.log_start_offset
    if first > last:
        return [], last
    data = log.read(first, READ_BYTES, log.high_watermark)
    if not isinstance(data, FileSlice):
        return [], last  # nothing of it is left
    found, seen = await broker.in_thread(lambda: _decode(data, first, last))
    if seen < first:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition} cannot be read at {first}")
    return found, seen


def _decode(data: FileSlice, first: int, last: int) -> tuple[list[Record], int]:
    found: list[Record] = []
    seen = first - 1
    buffer = memoryview(data.read())
    for position, header in iterate_headers(buffer):
        if header.base_offset > last:
            return found, last
        if not header.is_control and header.last_offset >= first:
            batch = buffer[position : position + header.size]
            found += [record for record in iterate_records(batch, header) if first <= record.offset <= last]
        seen = min(header.last_offset, last)
    return found, seen
