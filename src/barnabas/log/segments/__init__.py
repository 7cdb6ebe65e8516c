"""The segments of a log: files with indexes by offset, timestamp and aborted transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.segments.aborted_index import NOTHING_ABORTED, AbortedIndex, TransactionIndexError
    from barnabas.log.segments.indexes import IndexFileError, OffsetIndex, TimeIndex
    from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_batches, walk_headers
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "aborted_index": "AbortedIndex NOTHING_ABORTED TransactionIndexError",
            "indexes": "IndexFileError OffsetIndex TimeIndex",
            "scan": "BadBatch SCAN_CHUNK walk_batches walk_headers",
        },
    )

__all__ = [
    "NOTHING_ABORTED",
    "SCAN_CHUNK",
    "AbortedIndex",
    "BadBatch",
    "IndexFileError",
    "OffsetIndex",
    "TimeIndex",
    "TransactionIndexError",
    "walk_batches",
    "walk_headers",
]
