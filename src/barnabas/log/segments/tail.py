"""Where the last few batches of the active segment start, so that readers at the tail need no index."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

KEPT: Final = 64
"""A consumer that follows the end asks for one of the very last batches; this many cover a short pause."""


class Tail:
    """Batches of the active segment from offset `start` on, without a gap up to the log end."""

    __slots__ = ("_last_offsets", "_positions", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self._last_offsets: list[int] = []
        self._positions: list[int] = []

    def add(self, last_offset: int, position: int) -> None:
        offsets = self._last_offsets
        offsets.append(last_offset)
        self._positions.append(position)
        if len(offsets) >= 2 * KEPT:
            self.start = offsets[KEPT - 1] + 1
            del offsets[:KEPT], self._positions[:KEPT]

    def restart(self, start: int) -> None:
        """Another segment is active now, or the old one was cut."""
        self.start = start
        self._last_offsets.clear()
        self._positions.clear()

    def find(self, offset: int, segment_size: int) -> tuple[int, int]:
        """(position, size) of the batch that ends at `offset` or later; `start` <= `offset` < log end."""
        entry = bisect_left(self._last_offsets, offset)
        position = self._positions[entry]
        following = entry + 1
        end = self._positions[following] if following < len(self._positions) else segment_size
        return position, end - position
