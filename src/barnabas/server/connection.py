"""One client's connection: requests in, in order; responses out, in the same order.

Theory of operation. All connections receive into one shared buffer and handle complete requests where they lie, so
that an idle connection owns no memory. A request that has not arrived completely (a frame) moves to a buffer of its
own, counted against the memory pool, and the rest is received there, as far as the pool has granted. Requests that
may not be handled yet wait in `_backlog`, and the socket is not read meanwhile. That is so when this connection has
had its share of this turn of the loop, and while there is a reason in `_pauses`:

    ANSWERS   too many requests are unanswered, or too much output waits for a client that does not read
    HANDLER   a handler that waits (a coroutine) has not finished; the next request must see what it did
    MEMORY    the memory pool has no room for the rest of a frame
    STOPPING  the server shuts down
    CLOSED    the connection is closed, perhaps by one of the requests that arrived together

Responses of one read event are sent together at its end. A response made later is sent at once.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from barnabas.log_lines import limited_logger
from barnabas.server.limits import QUEUED_OUTPUT_BYTES, REQUESTS_PER_TURN, UNANSWERED_REQUESTS
from barnabas.server.memory import LARGEST_SPARE, NO_MEMORY, MemoryPool
from barnabas.server.output import Output
from barnabas.server.strangers import refusal
from barnabas.server.transport import BLOCKED, Transport

if TYPE_CHECKING:
    from barnabas.server.dispatch import Request
    from barnabas.server.listener import Listener
    from barnabas.server.surroundings import Surroundings

log = limited_logger(__name__)

# What every request begins with: the length of the rest, the API key and version (read as one number, the key
# of a route), the correlation id, and the length of the client id.
_START = Struct(">iiih")
_START_BYTES = _START.size
_LENGTH = Struct(">i")
_LENGTH_BYTES = _LENGTH.size
SHORTEST_REQUEST = _START_BYTES - _LENGTH_BYTES

ANSWERS, HANDLER, MEMORY, STOPPING, CLOSED = 1, 2, 4, 8, 16

BACKLOG = LARGEST_SPARE  # in the memory pool it counts among the large frames, whatever its length
OVERFULL = (
    "its requests have to wait, and those that wait take twice queued.max.request.bytes: send fewer at once"
)


class Connection:
    """See the module's text. Times are monotonic seconds."""

    __slots__ = (
        "_backlog", "_beginning", "_dispatch", "_frame", "_frame_end", "_frame_filled", "_frame_length", "_in_event",
        "_longest_request", "_now", "_pauses", "_reading", "_receive", "_resuming", "_server", "_shared", "_told",
        "client_id", "client_id_bytes", "client_software_name", "client_software_version", "closed",
        "frame_begun", "last_active", "listener", "local_address", "opened", "output", "peer", "principal",
        "received", "requests", "transport", "unanswered",
    )  # fmt: skip

    def __init__(
        self,
        server: Surroundings,
        transport: Transport,
        listener: Listener,
        peer: tuple[str, int],
        local_address: tuple[str, int],
    ) -> None:
        self._server = server
        self.transport = transport
        self.listener = listener
        self.peer = peer
        self.local_address = local_address
        self._receive = transport.receive
        self._dispatch = server.dispatcher.dispatch
        self._now = server.monotonic
        self._shared = server.receive_buffer
        self._longest_request = server.limits.longest_request(is_stranger=listener.authenticates)
        self.output = Output(transport, server.loop, server.warmer, self._output_progressed, self.close)
        self.opened = self.last_active = self.received = self._now()
        self.requests = 0
        self._beginning = b""  # a request of which so little has arrived that not even its length is known
        # Or its buffer, with how much is there, up to where memory is reserved, and how long it will be.
        self._frame: memoryview | None = None
        self._frame_filled = self._frame_end = self._frame_length = 0
        self.frame_begun: float | None = (
            None  # when a request began to arrive, without the time we did not read
        )
        self._backlog: memoryview | None = None
        self._pauses = 0
        self._resuming = self._in_event = False
        self.unanswered: deque[Request] = deque()
        self.closed = False
        # Who this is; the handlers of ApiVersions and of authentication fill it in.
        self.client_id: str | None = None
        self.client_id_bytes: bytes | memoryview | None = None
        self.client_software_name = self.client_software_version = ""
        self.principal = "User:ANONYMOUS"
        self._told: list[Callable[[], None]] | None = None  # those who want to know of the end
        self._reading = True
        server.loop.add_reader(transport.fileno(), self._readable)

    def __repr__(self) -> str:
        return f"connection from {self.peer[0]}:{self.peer[1]}, client id {self.client_id!r}"

    # Requests in

    def _readable(self) -> None:
        """The socket has bytes (or its end): receive once, handle what is complete, send the answers."""
        frame = self._frame
        start = 0
        try:
            if frame is not None:
                rest = frame[self._frame_filled : self._frame_end]
                if self._frame_end == self._frame_length:
                    count = self.transport.receive_both(rest, self._shared)
                else:
                    count = self._receive(rest)
            elif self._beginning:
                start = len(self._beginning)
                self._shared[:start] = self._beginning
                count = self._receive(self._shared[start:])
            else:
                count = self._receive(self._shared)
        except BLOCKED:
            return
        except OSError as error:
            self.close(f"cannot receive: {error}")
            return
        if not count:
            self.close("the client closed it")
            return
        self.received = self.last_active = self._now()
        self._in_event = True
        if frame is not None:
            count = self._fill_frame(frame, count)
        elif start:
            self._beginning = b""
            self.frame_begun = None
        if count:
            self._handle_requests(self._shared, start + count)
        self._end_event()

    def _handle_requests(self, buffer: memoryview, end: int) -> None:
        """Handle the complete requests in a buffer, and keep what is left of it."""
        position = 0
        share = REQUESTS_PER_TURN
        longest = self._longest_request
        while end - position >= _START_BYTES:
            length, route, correlation_id, client_id_length = _START.unpack_from(buffer, position)
            following = position + _LENGTH_BYTES + length
            if following > end or not SHORTEST_REQUEST <= length <= longest or not share or self._pauses:
                break
            self._dispatch(
                self, buffer, position + _START_BYTES, following, route, correlation_id, client_id_length
            )
            position = following
            share -= 1
        self.requests += REQUESTS_PER_TURN - share
        if position < end and not self.closed:
            self._keep(buffer, position, end)

    def _keep(self, buffer: memoryview, position: int, end: int) -> None:
        """Keep input that cannot be handled now: the beginning of a request, or requests that must wait."""
        if self._pauses or end - position < _LENGTH_BYTES:
            self._set_aside(buffer, position, end)
            return
        (length,) = _LENGTH.unpack_from(buffer, position)
        if not SHORTEST_REQUEST <= length <= self._longest_request:
            self._server.closed["length"] += 1
            self.close(self._refusal(length), logging.WARNING)
        elif position + _LENGTH_BYTES + length > end:
            self._begin_frame(buffer, position, end, _LENGTH_BYTES + length)
        else:
            self._set_aside(buffer, position, end)

    def _refusal(self, length: int) -> str:
        limits = self._server.limits
        is_stranger = self._longest_request < limits.request_bytes
        return refusal(length, SHORTEST_REQUEST, self._longest_request, is_stranger=is_stranger)

    def _set_aside(self, buffer: memoryview, position: int, end: int) -> None:
        if not self._pauses and end - position < _LENGTH_BYTES:
            self._beginning = bytes(buffer[position:end])
            self.frame_begun = self._now()
            return
        rest = buffer[position:end]
        self._backlog = memoryview(bytearray(rest)) if buffer is self._shared else rest
        self._hold(self._server.memory, BACKLOG, len(rest))

    def _hold(self, memory: MemoryPool, length: int, count: int) -> None:
        """Count what was received and has to wait; there is an end to that, too."""
        memory.hold(self.peer[0], length, count)
        if memory.is_overfull:
            self._server.closed["overfull"] += 1
            self.close(OVERFULL, logging.WARNING)

    # Frames: requests that arrive in pieces

    def _begin_frame(self, buffer: memoryview, position: int, end: int, length: int) -> None:
        """Move a request that has not arrived completely to a buffer of its own, if there is room for it."""
        memory = self._server.memory
        arrived = end - position
        reserved = memory.begin(self.peer[0], length, arrived)
        self._frame_filled = arrived
        self._frame_length = length
        self.frame_begun = self._now()
        if reserved:
            self._frame_end = reserved
            self._use_buffer(memory, buffer[position:end])
        else:
            self._frame = memoryview(bytearray(buffer[position:end]))
            self._frame_end = arrived
            self._hold(memory, length, arrived)
            if not self.closed:
                self._wait_for_memory(memory)

    def _use_buffer(self, memory: MemoryPool, arrived: memoryview) -> None:
        try:
            frame = self._frame = memory.allocate(self._frame_length, self._frame_end)
        except NO_MEMORY as error:
            self._server.closed["overfull"] += 1
            self.close(f"the system has no memory for its request: {error}", logging.WARNING)
        else:
            frame[: len(arrived)] = arrived

    def _fill_frame(self, frame: memoryview, count: int) -> int:
        """Take account of received bytes; returns how many of them lie in the shared buffer, behind the frame."""
        self._frame_filled += count
        beyond = self._frame_filled - self._frame_length
        if beyond < 0:
            if self._frame_filled == self._frame_end:
                self._grow_frame()
            return 0
        length = self._frame_length
        self._forget_frame()
        _, route, correlation_id, client_id_length = _START.unpack_from(frame)
        self._dispatch(self, frame, _START_BYTES, length, route, correlation_id, client_id_length)
        self.requests += 1
        self._server.memory.finish(self.peer[0], length, frame)
        return beyond

    def _grow_frame(self) -> None:
        """All that was reserved has arrived: reserve more."""
        memory = self._server.memory
        end = memory.grow(self.peer[0], self._frame_length, self._frame_end)
        if end == self._frame_end:
            self._wait_for_memory(memory)
        else:
            self._frame_end = end

    def _wait_for_memory(self, memory: MemoryPool) -> None:
        self._pauses |= MEMORY
        memory.wait(self.peer[0], self._frame_length, self._frame_end, self._memory_granted)

    def _memory_granted(self, end: int) -> None:
        frame = self._frame
        assert frame is not None
        self._frame_end = end
        self._pauses &= ~MEMORY
        if len(frame) < end:  # it was not even given a buffer
            self._use_buffer(self._server.memory, frame)
        self.resume(MEMORY)

    def _forget_frame(self) -> None:
        self._frame = self.frame_begun = None
        self._frame_filled = self._frame_end = self._frame_length = 0

    def lateness(self, now: float) -> float:
        """By how many seconds a request arrives later than at the minimum rate, as far as we have read."""
        if self.frame_begun is None or not self._reading:
            return 0.0
        return now - self.frame_begun - self._frame_filled / self._server.limits.frame_bytes_per_second

    def is_in_the_way(self, now: float) -> bool:
        """Others wait for memory that this one holds in vain: its request comes too slowly, or has to wait."""
        server = self._server
        if self._backlog is not None and now > self.received + server.limits.frame_seconds:
            return server.memory.is_wanted(self.peer[0], BACKLOG)
        if self.lateness(now) <= server.limits.short_frame_seconds or self._frame is None:
            return False
        return server.memory.is_wanted(self.peer[0], self._frame_length)

    # Pausing

    def pause(self, reason: int) -> None:
        """Handle no more requests until `resume` is called for the same reason."""
        self._pauses |= reason
        if not self._in_event:
            self._settle()

    def resume(self, reason: int) -> None:
        self._pauses &= ~reason
        if not self._in_event:
            self._settle()

    def _settle(self) -> None:
        """Read the socket, or go through the backlog, or do neither, as the pauses say."""
        if self.closed:
            return
        readable = not self._pauses and self._backlog is None
        if readable != self._reading:
            self._reading = readable
            if readable:
                if self.frame_begun is not None:  # the time in which we did not read does not count
                    self.frame_begun = (
                        self._now() - self._frame_filled / self._server.limits.frame_bytes_per_second
                    )
                self._server.loop.add_reader(self.transport.fileno(), self._readable)
            else:
                self._server.loop.remove_reader(self.transport.fileno())
        if self._backlog is not None and not self._pauses and not self._resuming:
            self._resuming = True
            self._server.loop.call_soon(self._go_through_backlog)

    def _go_through_backlog(self) -> None:
        self._resuming = False
        backlog = self._backlog
        if self.closed or self._pauses or backlog is None:
            return
        self._backlog = None
        self._server.memory.release(self.peer[0], BACKLOG, len(backlog))
        self._in_event = True
        self._handle_requests(backlog, len(backlog))
        self._end_event()

    def _end_event(self) -> None:
        self._in_event = False
        if self.output:
            self.output.flush()
        if not self._reading or self._pauses or self._backlog is not None or self._overloaded():
            self._weigh_answers()

    def _overloaded(self) -> bool:
        return len(self.unanswered) >= UNANSWERED_REQUESTS or self.output.queued_bytes > QUEUED_OUTPUT_BYTES

    def _weigh_answers(self) -> None:
        if self._overloaded():
            self._pauses |= ANSWERS
        else:
            self._pauses &= ~ANSWERS
        self._settle()

    def authenticated(self, principal: str) -> None:
        """The client has proved who it is: it may send requests of any size."""
        self.principal = principal
        self._longest_request = self._server.limits.request_bytes

    # Responses out

    def answered(self, request: Request) -> None:
        """A request that had to wait has its answer: send it, and those behind it that waited for it."""
        unanswered = self.unanswered
        if self.closed or unanswered[0] is not request:
            return
        while unanswered and (answer := unanswered[0].answer) is not None:
            unanswered.popleft()
            self.output.add(answer)
        if not self._in_event:
            self.last_active = self._now()
            self.output.flush()
            if self._pauses:
                self._weigh_answers()

    def _output_progressed(self) -> None:
        self.last_active = self._now()
        if self._pauses:
            self._weigh_answers()

    # The end

    @property
    def is_quiet(self) -> bool:
        """Nothing is in flight: no output waiting, no request unanswered but long polls, which wait for news."""
        return not self.output and all(request.patience for request in self.unanswered)

    def when_closed(self, callback: Callable[[], None]) -> None:
        """For what a client holds as long as it is connected."""
        if self._told is None:
            self._told = []
        self._told.append(callback)

    def close(self, reason: str, level: int = logging.DEBUG) -> None:
        if self.closed:
            return
        self.closed = True
        self._pauses |= CLOSED
        server = self._server
        if level > logging.DEBUG:
            log.log(level, "closed %r: %s", self, reason)
        if self._reading:
            server.loop.remove_reader(self.transport.fileno())
        if self._in_event and self.output:
            self.output.flush()  # the answers to what came before
        self.output.close()
        self._give_back_memory(server.memory)
        self.unanswered.clear()
        self.transport.close()
        server.forget(self)
        told, self._told = self._told, None
        for callback in told or ():
            callback()

    def hold_memory(self, size: int) -> None:
        """Count a request that was copied against the memory pool, until `release_memory`."""
        self._server.memory.hold(self.peer[0], BACKLOG, size)

    def release_memory(self, size: int) -> None:
        self._server.memory.release(self.peer[0], BACKLOG, size)

    def _give_back_memory(self, memory: MemoryPool) -> None:
        address, length, end = self.peer[0], self._frame_length, self._frame_end
        backlog = self._backlog
        if self._pauses & MEMORY:
            memory.stop_waiting(address, length, self._memory_granted)
        self._forget_frame()
        self._backlog = None
        if length:
            memory.release(address, length, end)
        if backlog is not None:
            memory.release(address, BACKLOG, len(backlog))
