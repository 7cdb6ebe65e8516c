"""Cutting many batches into pieces that can be appended without holding the loop up."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.records.batch import iterate_headers

PIECE_BYTES = 32 << 10
"""How much is appended in one turn of the loop: some milliseconds, even of the smallest batches."""


def pieces(batches: memoryview, piece_bytes: int = PIECE_BYTES) -> Iterator[memoryview]:
    """Whole batches of about `piece_bytes`; a torn one at the end is left out."""
    start = end = 0
    for position, header in iterate_headers(batches):
        if position + header.size - start > piece_bytes and position > start:
            yield batches[start:position]
            start = position
        end = position + header.size
    if end > start:
        yield batches[start:end]
