"""Memory pool for incomplete requests of all connections (`queued.max.request.bytes`).

Theory of operation. A request that arrives in pieces is a *frame*. It reserves its whole length at once when
it is of usual size and there is plenty of room. A larger one, or any but a small one when memory is short,
reserves twice what has arrived, step by step: announcing 100 MB costs nothing, sending it does.

There are two size classes. Small frames have a reserved part of the pool, and use the rest as long as no
larger one waits for it: they never wait behind large ones. In each class an address may hold at most a share.
Frames that find no room wait, with one queue per address. The queues take turns: one that is blocked by its
address's share is skipped, and one that is blocked by the pool stops those behind it and all new frames, so
that none starves.

Frames that hold memory and wait for more cannot deadlock: a frame either waits or is being read. One that is
read ends in bounded time: it is complete, or its connection is closed for being slow (`Limits.frame_seconds`;
sooner while others wait, see `Connections.evict_slow`). Then its memory is given to waiting frames. If
nothing in the class is being read, all used memory belongs to waiting frames, and the first of them is
granted *its whole length*, whether it fits or not. It never waits again, so it ends in bounded time too.
Hence every frame is served, and at most one frame in each class exceeds the limit: `used` is at most the
size, plus one request (plus bytes received already, see `hold`). The same holds for the queue of an address
and its share; so a request larger than a share is served when its address holds nothing else.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from barnabas.network.limits import MEBIBYTE, UNLIMITED

# Frames up to this size use a recycled buffer: a fresh one of 128 KB costs more in page faults than receiving
# it.
MAX_SPARE = MEBIBYTE
MIN_SPARE = 16 * 1024
SPARES_OF_ONE_SIZE = 8

SMALL_FRAME = 64 * 1024  # limit of the small class: the requests of consumers, heartbeats, batches of 16 KB
SMALL_PART = 8  # the small class has one eighth of the pool
FIRST_STEP = 256 * 1024  # reserved at first by a frame that does not reserve its whole length
OVERFULL_BYTES = 64 * MEBIBYTE  # bytes received already may exceed the pool by its size, or by this

NO_MEMORY = (OSError, MemoryError)

Granted = Callable[[int], None]


class Waiter(NamedTuple):
    length: int
    held: int


class Queue:
    """Waiting frames of one address in a size class."""

    __slots__ = ("parked", "waiters")

    def __init__(self) -> None:
        self.waiters: OrderedDict[Granted, Waiter] = (
            OrderedDict()
        )  # thousands may leave at once, from any position
        self.parked = 0  # bytes held by these frames


class SizeClass:
    """Memory held by the small or the large frames, and their queues."""

    __slots__ = ("held", "is_short", "parked", "queues", "used")

    def __init__(self) -> None:
        self.used = 0
        self.parked = 0  # the part of `used` held by waiting frames
        self.held: dict[str, int] = {}  # `used` by address
        self.queues: OrderedDict[str, Queue] = OrderedDict()  # by address, in round-robin order
        self.is_short = False  # the first queue waits for room in the pool

    def take(self, address: str, count: int) -> None:
        self.used += count
        self.held[address] = self.held.get(address, 0) + count

    def park(self, address: str, waiter: Waiter, granted: Granted) -> None:
        queue = self.queues.get(address)
        if queue is None:
            queue = self.queues[address] = Queue()
        queue.waiters[granted] = waiter
        queue.parked += waiter.held
        self.parked += waiter.held

    def unpark(self, address: str, granted: Granted) -> None:
        """Remove a waiter from its queue, which moves to the end of the round."""
        queue = self.queues[address]
        waiter = queue.waiters.pop(granted)
        queue.parked -= waiter.held
        self.parked -= waiter.held
        if queue.waiters:
            self.queues.move_to_end(address)
        else:
            del self.queues[address]


class MemoryPool:
    """Reserves memory up to a limit, and hands out buffers; frames that find no room are called back later.

    `length` is always that of the whole frame; it selects the size class.
    """

    def __init__(self, size: int, share: int = UNLIMITED) -> None:
        self.used = 0
        self._small = SizeClass()
        self._large = SizeClass()
        self.waiting = 0
        """Number of frames that wait for memory."""
        self._spares: dict[int, list[memoryview]] = {size: [] for size in _SPARE_SIZES}
        self.on_wait: Callable[[], None] = lambda: None
        """Called when a frame has to wait: some connections may hold memory without progress."""
        self.resize(size, share)

    def resize(self, size: int, share: int = UNLIMITED) -> None:
        """Change the limits: of all addresses together, and of each."""
        self.size = size
        self.share = min(share, size)
        self._small_size = size // SMALL_PART
        self._plenty = min(self.share, size // 2)

    @property
    def is_overfull(self) -> bool:
        """True when more was received than the pool tolerates, even though nothing new is read."""
        return self.used > self.size + max(self.size, OVERFULL_BYTES)

    def is_wanted(self, address: str, length: int) -> bool:
        """Return whether a frame waits for memory held by one of this address and length."""
        size_class = self._small if length <= SMALL_FRAME else self._large
        return size_class.is_short or address in size_class.queues

    # Reserving

    def begin(self, address: str, length: int, arrived: int) -> int:
        """Reserve for a frame; return the end of the reserved part, 0 if it has to wait."""
        size_class = self._small if length <= SMALL_FRAME else self._large
        if length > MAX_SPARE or self.waiting or self.used + length > self._plenty:
            return self._begin_crowded(size_class, address, length, arrived)
        # No address can exceed its share while the total is below it.
        self.used += length
        size_class.used += length
        size_class.held[address] = size_class.held.get(address, 0) + length
        return length

    def _begin_crowded(self, size_class: SizeClass, address: str, length: int, arrived: int) -> int:
        if size_class.is_short or address in size_class.queues:
            return 0
        end = self._allowed(size_class, address, length, 0, arrived)
        if end:
            self.used += end
            size_class.take(address, end)
        return end

    def grow(self, address: str, length: int, held: int) -> int:
        """Reserve more for a full frame; return its new reservation, unchanged if it must wait."""
        size_class = self._small if length <= SMALL_FRAME else self._large
        if size_class.is_short or address in size_class.queues:
            return held
        end = self._allowed(size_class, address, length, held, held)
        if not end:
            return held
        self.used += end - held
        size_class.take(address, end - held)
        return end

    def hold(self, address: str, length: int, count: int) -> None:
        """Count bytes that are already in memory, whether they fit or not."""
        self.used += count
        (self._small if length <= SMALL_FRAME else self._large).take(address, count)

    def release(self, address: str, length: int, count: int) -> None:
        size_class = self._small if length <= SMALL_FRAME else self._large
        self.used -= count
        size_class.used -= count
        held = size_class.held[address] - count
        if held:
            size_class.held[address] = held
        else:
            del size_class.held[address]
        if self.waiting:
            self._grant()

    # Waiting

    def wait(self, address: str, length: int, held: int, granted: Granted) -> None:
        """Queue a frame that holds `held` bytes; `granted` is called with its new reservation.

        The call comes during another connection's work, or before this returns: it must not read or send.
        """
        size_class = self._small if length <= SMALL_FRAME else self._large
        size_class.park(address, Waiter(length, held), granted)
        self.waiting += 1
        self._grant()
        if self.waiting:
            self.on_wait()

    def stop_waiting(self, address: str, length: int, granted: Granted) -> None:
        """Cancel a `wait` that has not been granted."""
        size_class = self._small if length <= SMALL_FRAME else self._large
        size_class.unpark(address, granted)
        self.waiting -= 1
        self._grant()

    def _grant(self) -> None:
        for size_class in (self._large, self._small):
            while self._grant_next(size_class):
                pass

    def _grant_next(self, size_class: SizeClass) -> bool:
        """Grant memory to the first frame that its address's share does not block; return False if there is
        none.
        """
        size_class.is_short = False
        for address, queue in size_class.queues.items():
            granted, waiter = next(iter(queue.waiters.items()))
            end = self._allowed(size_class, address, waiter.length, waiter.held, waiter.held)
            if end:
                size_class.unpark(address, granted)
                self.waiting -= 1
                self.used += end - waiter.held
                size_class.take(address, end - waiter.held)
                granted(end)
                return True
            if self._share_allows(size_class, address, _step(waiter.length, waiter.held) - waiter.held):
                size_class.is_short = True
                return False
        return False

    # Limits

    def _allowed(self, size_class: SizeClass, address: str, length: int, held: int, arrived: int) -> int:
        """Return how much a frame may hold: one more step, all of it to prevent a deadlock, or 0."""
        step = _step(length, arrived)
        more = step - held
        if size_class.held.get(address, 0) + more <= self._share_in(size_class, more) and self._fits(
            size_class, more
        ):
            return step
        rest = length - held
        if self._share_allows(size_class, address, rest) and (
            size_class.used <= size_class.parked or self._fits(size_class, rest)
        ):
            return length
        return 0

    def _share_allows(self, size_class: SizeClass, address: str, more: int) -> bool:
        """An address may hold its share, and one frame beyond it while its others wait."""
        held = size_class.held.get(address, 0)
        queue = size_class.queues.get(address)
        return held + more <= self._share_in(size_class, more) or held <= (
            queue.parked if queue is not None else 0
        )

    def _share_in(self, size_class: SizeClass, more: int) -> int:
        """Return the share of an address: half of the small class when only that is left."""
        return self.share if size_class is self._large or self._can_borrow(more) else self._small_size // 2

    def _fits(self, size_class: SizeClass, more: int) -> bool:
        if size_class is self._small:
            return size_class.used + more <= self._small_size or self._can_borrow(more)
        return size_class.used + more <= self.size - self._small_size and self.used + more <= self.size

    def _can_borrow(self, more: int) -> bool:
        """Small frames may use memory that large ones do not need."""
        return not self._large.is_short and self.used + more <= self.size

    # Buffers

    def allocate(self, length: int, end: int) -> memoryview:
        """Return a writable buffer for a frame whose bytes up to `end` were reserved.

        Raises one of NO_MEMORY where the system does not overcommit (vm.overcommit_memory=2, ulimit -v).
        """
        if end < length or length > MAX_SPARE:
            # Pages of an anonymous mapping are allocated on first write: bytes that have not arrived cost
            # nothing.
            size = length if length > MAX_SPARE else spare_size(length)
            return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON))
        size = spare_size(length)
        spares = self._spares[size]
        return spares.pop() if spares else memoryview(bytearray(size))

    def finish(self, address: str, length: int, buffer: memoryview) -> None:
        """Recycle a frame's buffer and release its memory. The buffer must not be used afterwards."""
        spares = self._spares.get(len(buffer))
        if spares is not None and len(spares) < SPARES_OF_ONE_SIZE:
            spares.append(buffer)
        self.release(address, length, length)


def _step(length: int, arrived: int) -> int:
    """Return the next reservation of a frame from the bytes that have arrived."""
    return min(length, max(2 * arrived, FIRST_STEP))


def spare_size(length: int) -> int:
    """Return the buffer size for a frame: a power of two, so that a few sizes serve all."""
    return 1 << (length - 1).bit_length() if length > MIN_SPARE else MIN_SPARE


_SPARE_SIZES = [1 << power for power in range(MIN_SPARE.bit_length() - 1, MAX_SPARE.bit_length())]
