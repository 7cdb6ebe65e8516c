"""Reads and decodes records of a share partition in a thread: for dead letters and for delayed delivery."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSlice
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.threads import ThreadBackground
from barnabas.log import largest_data
from barnabas.records import InvalidRecords, Record, iterate_records
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.replication import Partition

READ_BYTES = 256 << 10  # at a time; decoding more would block the loop
MAX_DECODED = 16 << 20  # limit of the decoded size
RECORD_BYTES, HEADER_BYTES = 200, 150  # of objects

logger = rate_limited_logger(__name__)


async def read_records(
    threads: ThreadBackground, partition: Partition, first: int, last: int
) -> tuple[list[Record], int]:
    """Records from `first` on, up to `last` or a size limit; and the last offset that was read."""
    log = partition.log
    if first < log.log_start_offset:
        first = log.log_start_offset
    if first > last:
        return [], last
    data = await partition.read_any(first, READ_BYTES)
    if not isinstance(data, FileSlice):
        return [], last  # nothing is left
    largest = largest_data(log.config)
    found, seen = await threads.call(lambda: _decode(data, first, last, largest))
    if seen < first:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition} cannot be read at {first}")
    return found, seen


def _decode(data: FileSlice, first: int, last: int, largest: int) -> tuple[list[Record], int]:
    found: list[Record] = []
    seen = first - 1
    weight = 0
    buffer = memoryview(data.read())
    for position, header in iterate_headers(buffer):
        if header.base_offset > last:
            return found, last
        if not header.is_control and header.last_offset >= first:
            for record in _readable(buffer[position : position + header.size], header, largest):
                if first <= record.offset <= last:
                    if weight > MAX_DECODED:
                        return found, seen
                    found.append(record)
                    seen = record.offset
                    weight += _weight(record)
        seen = min(header.last_offset, last)
    return found, seen


def _readable(batch: memoryview, header: BatchHeader, largest: int) -> Iterator[Record]:
    """The records of a batch, up to the first that is invalid: clients write them."""
    offset = -1
    try:
        for record in iterate_records(batch, header, largest):
            if record.offset <= offset:
                raise InvalidRecords(f"offset {record.offset} comes after {offset}")
            offset = record.offset
            yield record
    except InvalidRecords as error:
        logger.warning("skipping records from offset %d on: %s", header.base_offset, error.message)


def _weight(record: Record) -> int:
    """Approximate size of a record in memory."""
    contents = len(record.key or b"") + len(record.value or b"")
    return RECORD_BYTES + contents + HEADER_BYTES * len(record.headers)
