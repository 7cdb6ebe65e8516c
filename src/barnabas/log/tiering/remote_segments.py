"""The remote segments of a log, as its retention sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class RemoteSegment(NamedTuple):
    base: int
    end: int
    size: int  # bytes of records
    largest_timestamp: int


class RemoteSegments(Protocol):
    """The remote segments of a log, from memory: no method blocks."""

    @property
    def is_known(self) -> bool:
        """False until the manifest was read: there may be more segments than listed."""
        ...

    @property
    def end(self) -> int:
        """End of the last one. The log's tiered end may be lower, as it is limited to its high watermark."""
        ...

    @property
    def size_bytes(self) -> int:
        """Total bytes of records."""
        ...

    def oldest(self) -> Iterator[RemoteSegment]:
        """Yield all segments, oldest first, without gaps up to `end`."""
        ...
