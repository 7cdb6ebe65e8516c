"""Splits a client's input into requests: bytes in, requests out, without a socket.

Theory of operation. All connections receive into one shared buffer, and complete requests are handed out in
place, so that an idle connection owns no memory. Of an incomplete request, one of two is kept:

    beginning   less than four bytes: not even its length is known
    frame       a separate buffer, counted against the memory pool. The rest is received there, as far as the
                pool has reserved: up to `_end`, which grows to `_length`

Complete requests that may not be handed out yet are the `backlog`, which is counted against the memory pool
too. This happens when the connection has used its share of this loop iteration, and while `pauses` has a
reason:

    ANSWERS     too many requests are unanswered, or too much output waits for a client that does not read
    HANDLER     a waiting handler (a coroutine) has not finished; the next request must see its effects
    MEMORY      the memory pool has no room for the rest of a frame
    STOPPING    the server shuts down
    CLOSED      the connection is closed, perhaps by one of the requests that arrived together
    THROTTLED   the client has exceeded its quota

The owner receives into the shared buffer and calls `feed`; while `begun` is set it receives into `room()` and
calls `received`. MEMORY is set and cleared here, the other reasons by the owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from barnabas.network.limits import REQUESTS_PER_TURN
from barnabas.network.memory_pool import MAX_SPARE, NO_MEMORY, Granted, MemoryPool
from barnabas.protocol.framing import (
    LENGTH_BYTES,
    MIN_REQUEST,
    REQUEST_START_BYTES,
    decode_length,
    decode_request_start,
)

ANSWERS: Final = 1
HANDLER: Final = 2
MEMORY: Final = 4
STOPPING: Final = 8
CLOSED: Final = 16
THROTTLED: Final = 32

BACKLOG: Final = MAX_SPARE  # the memory pool counts it as a large frame, whatever its length
OVERFULL = "its waiting requests take twice queued.max.request.bytes: send fewer at once"

_TLS_HANDSHAKE = b"\x16\x03"  # type and major version of the first record
_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"CONN", b"PATC", b"PRI ")

Owner = TypeVar("Owner")

Handle = Callable[[Owner, memoryview, int, int, int, int, int], None]
"""Takes a request: the owner of the frames, the buffer, the positions of the client id and of the request's
end in it, API key and version as one number, the correlation id, and the length of the client id.
"""


class RefusedFrameError(Exception):
    """The input is refused and the connection has to be closed. `label` is the reason in the metric."""

    def __init__(self, label: str, reason: str) -> None:
        super().__init__(reason)
        self.label = label


class RequestFrames(Generic[Owner]):
    """See the module docstring. Times are monotonic seconds."""

    __slots__ = (
        "_address", "_beginning", "_end", "_filled", "_frame", "_granted", "_length", "_limit", "_longest",
        "_memory", "_now", "_shared", "backlog", "begun", "handle", "pauses", "requests",
    )  # fmt: skip

    shortest = MIN_REQUEST

    def __init__(
        self,
        handle: Handle[Owner],
        shared: memoryview,
        memory: MemoryPool,
        address: str,
        monotonic: Callable[[], float],
        granted: Granted,
    ) -> None:
        """`granted` is called when the memory pool has reserved more; it must call `grant`."""
        self.handle = handle
        self._shared = shared
        self._memory = memory
        self._address = address
        self._now = monotonic
        self._granted = granted
        self._longest = 0
        self._limit = ""
        self.requests = 0
        """Number of requests handed out."""
        self.pauses = 0
        self.begun: float | None = None
        """Start time of the incomplete request, without the time in which nothing was read."""
        self.backlog: memoryview | None = None
        self._beginning = b""
        self._frame: memoryview | None = None
        self._filled = self._end = self._length = 0

    def allow(self, longest: int, limit: str) -> None:
        """Accept requests of up to `longest` bytes; `limit` is the name of the setting."""
        self._longest = longest
        self._limit = limit

    def take_over(self, other: RequestFrames[Owner]) -> None:
        """Continue from another instance, between two requests."""
        self.allow(other._longest, other._limit)
        self.requests = other.requests
        self.pauses = other.pauses
        self.backlog, other.backlog = other.backlog, None

    # Bytes in, requests out

    def feed(self, owner: Owner, buffer: memoryview, end: int) -> None:
        """Hand out the complete requests at the start of a buffer, and keep the rest."""
        position = 0
        share = REQUESTS_PER_TURN
        longest = self._longest
        while end - position >= REQUEST_START_BYTES:
            length, route, correlation_id, client_id_length = decode_request_start(buffer, position)
            following = position + LENGTH_BYTES + length
            if following > end or not MIN_REQUEST <= length <= longest or not share or self.pauses:
                break
            handle = self.handle
            handle(
                owner,
                buffer,
                position + REQUEST_START_BYTES,
                following,
                route,
                correlation_id,
                client_id_length,
            )
            position = following
            share -= 1
        self.requests += REQUESTS_PER_TURN - share
        if position < end:
            self._keep(buffer, position, end)

    def room(self) -> tuple[memoryview, memoryview | None]:
        """Return the buffer for the rest of a request, and one for the bytes after it if all of it may be
        received.
        """
        frame = self._frame
        if frame is None:
            start = len(self._beginning)
            self._shared[:start] = self._beginning
            return self._shared[start:], None
        rest = frame[self._filled : self._end]
        return rest, self._shared if self._end == self._length else None

    def received(self, owner: Owner, count: int) -> None:
        """Process `count` bytes that were received into `room()`."""
        frame = self._frame
        if frame is None:
            count += len(self._beginning)
            self._beginning = b""
            self.begun = None
        else:
            count = self._fill(owner, frame, count)
        if count:
            self.feed(owner, self._shared, count)

    def feed_backlog(self, owner: Owner) -> None:
        """Hand out requests from the backlog."""
        backlog, self.backlog = self.backlog, None
        if backlog is not None:
            self._memory.release(self._address, BACKLOG, len(backlog))
            self.feed(owner, backlog, len(backlog))

    # Kept input

    def _keep(self, buffer: memoryview, position: int, end: int) -> None:
        """Keep input that cannot be handed out now: an incomplete request, or requests that must wait."""
        if self.pauses:
            if not self.pauses & CLOSED:
                self._set_aside(buffer, position, end)
        elif end - position < LENGTH_BYTES:
            self._beginning = bytes(buffer[position:end])
            self.begun = self._now()
        else:
            (length,) = decode_length(buffer, position)
            if not self.shortest <= length <= self._longest:
                raise RefusedFrameError("length", self._refusal(length))
            if position + LENGTH_BYTES + length > end:
                self._begin_frame(buffer, position, end, LENGTH_BYTES + length)
            else:
                self._set_aside(buffer, position, end)

    def _refusal(self, length: int) -> str:
        allowed = f"{self.shortest} to {self._longest} ({self._limit}) are allowed"
        return f"a request of {length} bytes is refused: {allowed}" + _hint(
            length.to_bytes(LENGTH_BYTES, "big", signed=True)
        )

    def _set_aside(self, buffer: memoryview, position: int, end: int) -> None:
        rest = buffer[position:end]
        self.backlog = memoryview(bytearray(rest)) if buffer is self._shared else rest
        self._hold(BACKLOG, len(rest))

    def _hold(self, length: int, count: int) -> None:
        """Count waiting input against the memory pool, which bounds it too."""
        self._memory.hold(self._address, length, count)
        if self._memory.is_overfull:
            raise RefusedFrameError("overfull", OVERFULL)

    # Frames: requests that arrive in pieces

    def _begin_frame(self, buffer: memoryview, position: int, end: int, length: int) -> None:
        """Move an incomplete request to its own buffer, if there is room for it."""
        arrived = end - position
        reserved = self._memory.begin(self._address, length, arrived)
        self._filled = arrived
        self._length = length
        self.begun = self._now()
        if reserved:
            self._end = reserved
            self._allocate(buffer[position:end])
        else:
            self._frame = memoryview(bytearray(buffer[position:end]))
            self._end = arrived
            self._hold(length, arrived)
            self._wait_for_memory()

    def _allocate(self, arrived: memoryview) -> None:
        try:
            frame = self._frame = self._memory.allocate(self._length, self._end)
        except NO_MEMORY as error:
            raise RefusedFrameError("overfull", f"cannot allocate memory for its request: {error}") from error
        frame[: len(arrived)] = arrived

    def _fill(self, owner: Owner, frame: memoryview, count: int) -> int:
        """Process received bytes; return how many of them are in the shared buffer, after the frame."""
        self._filled += count
        beyond = self._filled - self._length
        if beyond < 0:
            if self._filled == self._end:
                self._grow()
            return 0
        length = self._length
        self._forget_frame()
        self._hand_out(owner, frame, length)
        self.requests += 1
        self._memory.finish(self._address, length, frame)
        return beyond

    def _hand_out(self, owner: Owner, frame: memoryview, length: int) -> None:
        _, route, correlation_id, client_id_length = decode_request_start(frame)
        self.handle(owner, frame, REQUEST_START_BYTES, length, route, correlation_id, client_id_length)

    def _grow(self) -> None:
        """Reserve more when everything reserved has arrived."""
        end = self._memory.grow(self._address, self._length, self._end)
        if end == self._end:
            self._wait_for_memory()
        else:
            self._end = end

    def _wait_for_memory(self) -> None:
        self.pauses |= MEMORY
        self._memory.wait(self._address, self._length, self._end, self._granted)

    def grant(self, end: int) -> None:
        """Continue with a frame that the memory pool has reserved up to `end`."""
        frame = self._frame
        assert frame is not None
        self._end = end
        self.pauses &= ~MEMORY
        if len(frame) < end:  # it does not have a buffer yet
            self._allocate(frame)

    def _forget_frame(self) -> None:
        self._frame = self.begun = None
        self._filled = self._end = self._length = 0

    # Slow and abandoned requests

    def lateness(self, now: float, bytes_per_second: float) -> float:
        """Return by how many seconds a request lags behind a minimum rate."""
        return 0.0 if self.begun is None else now - self.begun - self._filled / bytes_per_second

    def forgive(self, bytes_per_second: float) -> None:
        """Treat a request as punctual after a time in which nothing was read."""
        if self.begun is not None:
            self.begun = self._now() - self._filled / bytes_per_second

    def frame_is_wanted(self) -> bool:
        """Return whether another connection waits for memory that an incomplete request holds here."""
        return self._frame is not None and self._memory.is_wanted(self._address, self._length)

    def backlog_is_wanted(self) -> bool:
        """Return whether another connection waits for memory that the backlog holds."""
        return self.backlog is not None and self._memory.is_wanted(self._address, BACKLOG)

    def close(self) -> None:
        """Release all memory, and hand out no more requests."""
        memory, address, length, end, backlog = (
            self._memory,
            self._address,
            self._length,
            self._end,
            self.backlog,
        )
        if self.pauses & MEMORY:
            memory.stop_waiting(address, length, self._granted)
        self.pauses |= CLOSED
        self._granted = _ignored  # a bound method of the connection: a cycle (`collector.keep_all`)
        self._forget_frame()
        self.backlog = None
        if length:
            memory.release(address, length, end)
        if backlog is not None:
            memory.release(address, BACKLOG, len(backlog))


def _ignored(end: int) -> None:
    """Ignore a grant: the connection is closed."""


def _hint(first: bytes) -> str:
    """Guess the protocol of a first message that is not a Kafka request."""
    if first.startswith(_TLS_HANDSHAKE):
        return ". It looks like TLS: this listener speaks PLAINTEXT, set security.protocol=PLAINTEXT in the client"
    if first in _HTTP_METHODS:
        return ". It looks like HTTP: metrics and health have a separate port (barnabas.metrics.listen)"
    return ""
