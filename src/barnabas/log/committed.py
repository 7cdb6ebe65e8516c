"""Reading what is committed: a slice of the log, and which transactions a reader must leave out of it.

A transaction that was aborted is listed if it may have a batch in the slice. Kafka's list has no bound, and a client
sorts and keeps all of it. Ours has one: when many are found, the slice is shortened, and only those are listed that
have a batch in what is left of it. Nobody misses the others: a client looks up the producers of the batches it got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from barnabas.common.files import FileSlice, Slice
from barnabas.log.reading import read_slice
from barnabas.log.searching import aborted_between
from barnabas.log.segments.scan import BadBatch, walk_headers
from barnabas.records.batch import BatchHeader

if TYPE_CHECKING:
    from barnabas.log.local_log import LocalLog

MOST_LISTED = 200
"""More aborted transactions than this are worth a look at the batches of the slice."""
SHORT_SLICE = 64 << 10
"""At most some 800 batches of the smallest size, which are looked at in about a millisecond."""

_first_offset = itemgetter(1)


def read_committed(
    log: LocalLog, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
) -> tuple[Slice, list[tuple[int, int]]]:
    """As `LocalLog.read`, with (producer id, first offset) of aborted transactions in the slice, by first offset."""
    data = read_slice(log, offset, max_bytes, upper_offset, at_least_one)
    if not isinstance(data, FileSlice) or (
        offset >= log.segments.tail.start and log.segments.active.aborts_nothing
    ):
        return data, []
    with log.storage_errors():
        found = list(islice(_aborted(log, offset, upper_offset), MOST_LISTED + 1))
        if len(found) > MOST_LISTED:
            data = read_slice(log, offset, min(max_bytes, SHORT_SLICE), upper_offset, at_least_one)
            between = partial(_aborted, log)
            found = aborted_in(between, offset, data) if isinstance(data, FileSlice) else []
    found.sort(key=_first_offset)
    return data, found


def _aborted(log: LocalLog, start: int, end: int) -> Iterator[tuple[int, int]]:
    return aborted_between(log.segments.since(start), start, end)


def aborted_in(
    between: Callable[[int, int], Iterator[tuple[int, int]]], offset: int, data: FileSlice
) -> list[tuple[int, int]]:
    """Those of the aborted transactions that have a batch in this slice."""
    producers, end = set(), offset
    for header in _headers(data):
        end = header.next_offset
        if header.is_transactional:
            producers.add(header.producer_id)
    return [entry for entry in between(offset, end) if entry[0] in producers]


def _headers(data: FileSlice) -> Iterator[BatchHeader]:
    try:
        for _, header in walk_headers(data.file, data.position, data.position + data.length, SHORT_SLICE):
            yield header
    except BadBatch:
        return  # the last batch is cut off by the limit
