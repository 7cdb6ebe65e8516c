"""Batches in the log for a share group, found by their headers; their bytes are not copied."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSlice
from barnabas.log import Log
from barnabas.log.segments import BadBatch, walk_headers
from barnabas.records.batch import BatchHeader
from barnabas.replication import ColdRead, Loaded, Partition
from barnabas.share.acquisition import Span

HEADERS_CHUNK = (
    1024  # bytes read at a time: most batches of a queue are small, and their headers close together
)


class Batches(NamedTuple):
    """Batches of one segment, from the one that holds `offset` on."""

    offset: int
    spans: list[Span]
    headers: list[tuple[int, BatchHeader]]
    data: FileSlice
    aborted: list[tuple[int, int]] | None = None
    """Of a remote segment: (producer id, first offset) of its aborted transactions."""

    def slice_of(self, first: int, last: int) -> FileSlice:
        """The bytes of the batches that hold these offsets."""
        touched = [
            (position, header.size)
            for position, header in self.headers
            if header.last_offset >= first and header.base_offset <= last
        ]
        start = touched[0][0]
        return FileSlice(self.data.file, start, touched[-1][0] + touched[-1][1] - start)


def read_batches(
    partition: Partition,
    offset: int,
    max_bytes: int,
    upper: int,
    last_wanted: int,
    committed: bool,
    loaded: Loaded | None,
) -> Batches | ColdRead | None:
    """The batches from `offset` on, below `upper`, up to the one that holds `last_wanted`; None if there is none, or
    if it did not arrive in time.
    """
    is_remote = offset < partition.log.local_start_offset
    if is_remote and offset >= upper:
        return None
    try:
        data, aborted = partition.read(
            offset, max_bytes, upper, committed=committed and is_remote, loaded=loaded
        )
    except KafkaError as error:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return None  # the log was truncated; the window follows with the next attempt
        raise
    if isinstance(data, ColdRead):
        return data
    if not isinstance(data, FileSlice):
        return None
    headers: list[tuple[int, BatchHeader]] = []
    try:
        for position, header in walk_headers(
            data.file, data.position, data.position + data.length, HEADERS_CHUNK
        ):
            if header.base_offset >= upper or (headers and header.base_offset > last_wanted):
                break
            headers.append((position, header))
    except BadBatch:
        pass  # the last batch is cut off by the limit
    if not headers:
        return None
    spans = [Span(header.base_offset, header.last_offset) for _, header in headers]
    return Batches(offset, spans, headers, data, aborted if is_remote else None)


def aborted_spans(log: Log, found: Batches) -> list[Span]:
    """Batches of aborted transactions, which read_committed consumers must not see."""
    first, last = found.spans[0].first, found.spans[-1].last
    aborted = log.aborted_transactions(first, last + 1) if found.aborted is None else found.aborted
    if not aborted:
        return []
    spans = []
    starts: dict[int, list[int]] = {}
    for producer_id, start in aborted:
        starts.setdefault(producer_id, []).append(start)
    ended: set[tuple[int, int]] = set()
    for _, header in found.headers:
        open_since = [
            start
            for start in starts.get(header.producer_id, ())
            if start <= header.base_offset and (header.producer_id, start) not in ended
        ]
        if not open_since:
            continue
        if header.is_control:  # the marker of an abort: what follows of this producer is another transaction
            ended.update((header.producer_id, start) for start in open_since)
        elif header.is_transactional:
            spans.append(Span(header.base_offset, header.last_offset))
    return spans
