"""The memory that unfinished requests may take, all connections together (`queued.max.request.bytes`)."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from barnabas.server.limits import MEBIBYTE

# Frames of this size or less take a buffer that is used again: a fresh one of 128 KB costs more in page
# faults than receiving it.
LARGEST_SPARE = MEBIBYTE
SMALLEST_SPARE = 16 * 1024
SPARES_OF_ONE_SIZE = 8


class Waiter(NamedTuple):
    length: int
    held: int
    granted: Callable[[], None]


class MemoryPool:
    """Gives out buffers up to a sum; whoever finds no room is called back when there is.

    A request larger than the whole pool is served when nothing else is held, so that a small pool slows
    clients down but never locks one out.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self._waiting: deque[Waiter] = deque()
        self._parked = 0  # the part of `used` that belongs to those who wait
        self._spares: dict[int, list[memoryview]] = {}

    def try_reserve(self, length: int) -> bool:
        """Take `length` bytes if they fit, and if nobody else has been waiting for room."""
        if self._waiting or not self._fits(length):
            return False
        self.used += length
        return True

    def reserve(self, length: int) -> None:
        """Count bytes that are already in memory, fit or not."""
        self.used += length

    def wait(self, length: int, held: int, granted: Callable[[], None]) -> None:
        """Reserve when there is room, first come first served, and say so by calling `granted`.

        It is called in the middle of somebody else's work, so it must only make a note. `held` bytes are
        what the one who waits has reserved and will release then: they do not stand in its own way.
        """
        self._parked += held
        self._waiting.append(Waiter(length, held, granted))

    def stop_waiting(self, granted: Callable[[], None]) -> None:
        """Take back a `wait` that has not been granted."""
        for waiter in [waiter for waiter in self._waiting if waiter.granted == granted]:
            self._waiting.remove(waiter)
            self._parked -= waiter.held
        self._grant()

    def release(self, length: int) -> None:
        self.used -= length
        if self._waiting:
            self._grant()

    def _fits(self, length: int) -> bool:
        # When all that is used belongs to those who wait, the first of them goes: nobody else will release.
        return self.used <= self._parked or self.used + length <= self.size

    def _grant(self) -> None:
        while self._waiting and self._fits(self._waiting[0].length - self._waiting[0].held):
            waiter = self._waiting.popleft()
            self._parked -= waiter.held
            self.used += waiter.length
            waiter.granted()

    def allocate(self, length: int) -> memoryview:
        """Return a writable buffer of at least `length` bytes that were reserved before."""
        if length > LARGEST_SPARE:
            # Pages of an anonymous mapping exist only once they are written: a client that announces
            # 100 MB and sends nothing costs nothing.
            return memoryview(mmap.mmap(-1, length))
        size = spare_size(length)
        spares = self._spares.get(size)
        return spares.pop() if spares else memoryview(bytearray(size))

    def recycle(self, buffer: memoryview) -> None:
        """Take a buffer back for the next frame. Nothing may look into it any more."""
        size = len(buffer)
        if size <= LARGEST_SPARE:
            spares = self._spares.setdefault(size, [])
            if len(spares) < SPARES_OF_ONE_SIZE:
                spares.append(buffer)


def spare_size(length: int) -> int:
    """Return the size of buffer for a frame: a power of two, so that a few sizes serve all."""
    return max(SMALLEST_SPARE, 1 << (length - 1).bit_length())
