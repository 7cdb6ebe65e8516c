"""The segments of a log: files with indexes by offset, timestamp and aborted transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.segments.aborted_index import NOTHING_ABORTED as NOTHING_ABORTED
    from barnabas.log.segments.aborted_index import AbortedIndex as AbortedIndex
    from barnabas.log.segments.aborted_index import TransactionIndexError as TransactionIndexError
    from barnabas.log.segments.indexes import IndexFileError as IndexFileError
    from barnabas.log.segments.indexes import OffsetIndex as OffsetIndex
    from barnabas.log.segments.indexes import TimeIndex as TimeIndex
    from barnabas.log.segments.scan import SCAN_CHUNK as SCAN_CHUNK
    from barnabas.log.segments.scan import BadBatch as BadBatch
    from barnabas.log.segments.scan import walk_batches as walk_batches
    from barnabas.log.segments.scan import walk_headers as walk_headers
else:
    __getattr__ = lazy_exports(__name__)
