"""A bound on the number of segments whose files and indexes are held open.

A broker may have many thousand segments and few of them in use. Eviction is by second chance: a reader that uses
a segment sets its `used` flag, which costs the hot path one store, and a sweep passes over those once.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

DEFAULT_LIMIT = 512
"""Half of 1,024, the usual limit of open files of a process; the rest is for connections."""


class Evictable(Protocol):
    used: bool

    def release(self) -> None: ...


class OpenSegments:
    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._ring: deque[Evictable] = deque()

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, segment: Evictable) -> None:
        """Count a segment that has just been opened; another one may have to give way."""
        while len(self._ring) >= self.limit:
            candidate = self._ring.popleft()
            if candidate.used:
                candidate.used = False
                self._ring.append(candidate)
            else:
                candidate.release()
        segment.used = True
        self._ring.append(segment)

    def discard(self, segment: Evictable) -> None:
        try:
            self._ring.remove(segment)
        except ValueError:
            return
