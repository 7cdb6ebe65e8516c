"""One client's connection: requests in, in order; responses out, in the same order.

`frames` cuts the input into requests and decides which have to wait, and why. This module receives and sends,
and reads the socket only while requests may be handed out. Responses of one read event are sent together at
its end. A later response is sent at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from barnabas.common.files import FileSlice
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.frames import (
    ANSWERS,
    BACKLOG,
    MEMORY,
    THROTTLED,
    Handle,
    RefusedFrameError,
    RequestFrames,
)
from barnabas.network.limits import QUEUED_OUTPUT_BYTES, UNANSWERED_REQUESTS, Limits
from barnabas.network.memory_pool import MemoryPool
from barnabas.network.output import Output
from barnabas.network.page_residency import Warmer
from barnabas.network.token_frames import TokenFrames
from barnabas.network.transport import BLOCKED, Transport
from barnabas.protocol.framing import LENGTH_BYTES
from barnabas.security import Principal, of_connection
from barnabas.security.authn.sasl import SaslLogin

if TYPE_CHECKING:
    from barnabas.network.listener import Listener
    from barnabas.network.output import Part

log = rate_limited_logger(__name__)


class RequestChannel(Protocol):
    """Takes the requests of all connections: `requests.Dispatcher`."""

    @property
    def authenticate(self) -> Handle[Connection]: ...
    @property
    def dispatch(self) -> Handle[Connection]: ...
    def run(self, connection: Connection, coroutine: Coroutine[object, object, None]) -> None: ...


class PendingResponse(Protocol):
    """A request in the order of responses."""

    answer: Sequence[Part] | None
    received: float
    client_wait: float
    time_budget: float

    @property
    def label(self) -> str: ...
    @property
    def may_hold_slices(self) -> bool: ...


class ConnectionServer(Protocol):
    """State shared by all connections of a server."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    memory: MemoryPool
    warmer: Warmer
    receive_buffer: memoryview
    monotonic: Callable[[], float]
    closed: Counter[str]  # connections that the server has closed, by reason

    @property
    def dispatcher(self) -> RequestChannel: ...
    def forget(self, connection: Connection) -> None: ...


class Connection:
    """See the module docstring. Times are monotonic seconds."""

    __slots__ = (
        "_closing", "_frames", "_in_event", "_muted", "_now", "_reading", "_receive", "_resuming", "_server",
        "_session_end", "_shared", "client_id_bytes", "closed", "context", "known_head", "last_active", "listener",
        "local_address", "login", "opened", "output", "peer", "received", "transport", "unanswered",
    )  # fmt: skip

    def __init__(
        self,
        server: ConnectionServer,
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
        self._now = server.monotonic
        self._shared = server.receive_buffer
        self._frames: RequestFrames[Connection] = RequestFrames(
            server.dispatcher.authenticate if listener.authenticates else server.dispatcher.dispatch,
            server.receive_buffer,
            server.memory,
            peer[0],
            server.monotonic,
            self._memory_granted,
        )
        self._frames.allow(*server.limits.longest_request(is_authenticated=not listener.authenticates))
        self.output = Output(transport, server.loop, server.warmer, self._output_progressed, self.close)
        self.opened = self.last_active = self.received = self._now()
        self._resuming = self._in_event = False
        self.unanswered: deque[PendingResponse] = deque()
        self.closed = False
        # Identity of the client; the handlers of ApiVersions and of authentication fill it in.
        self.context = of_connection(self, listener.name, peer[0], is_privileged=listener.serves_brokers)
        self.login = SaslLogin(listener.offer) if listener.authenticates else None
        self._session_end: asyncio.TimerHandle | None = None
        self.client_id_bytes: bytes | memoryview | None = None
        self.known_head = 0  # length of the last request's head (`shortcuts.FastPath`)
        self._closing: list[Callable[[], None]] | None = None  # called on close
        self._reading = True
        self._muted: asyncio.TimerHandle | None = None
        transport.open(self._readable, self._certified)

    def __repr__(self) -> str:
        return f"connection from {self.peer[0]}:{self.peer[1]}, client id {self.context.client_id!r}"

    @property
    def requests(self) -> int:
        """Number of requests received."""
        return self._frames.requests

    # Requests in

    def _readable(self) -> None:
        """Receive once, handle the complete requests, send the responses."""
        # Here and elsewhere on the hot path, frequently called attributes that are not methods are bound to
        # locals first: the interpreter then skips the failing method lookup.
        frames, receive, now = self._frames, self._receive, self._now
        try:
            count = receive(self._shared) if frames.begun is None else self._receive_rest(frames)
        except BLOCKED:
            return
        except OSError as error:
            self.close(f"cannot receive: {error}")
            return
        if not count:
            self.close("the client closed it")
            return
        self.received = self.last_active = now()
        self._in_event = True
        try:
            if frames.begun is None:
                frames.feed(self, self._shared, count)
            else:
                frames.received(self, count)
        except RefusedFrameError as error:
            self._refuse(error)
        self._end_event()

    def _receive_rest(self, frames: RequestFrames[Connection]) -> int:
        rest, behind = frames.room()
        return self._receive(rest) if behind is None else self.transport.receive_both(rest, behind)

    def _refuse(self, error: RefusedFrameError) -> None:
        self._server.closed[error.label] += 1
        self.close(str(error), logging.WARNING)

    def _memory_granted(self, end: int) -> None:
        try:
            self._frames.grant(end)
        except RefusedFrameError as error:
            self._refuse(error)
        self.resume(MEMORY)

    def lateness(self, now: float) -> float:
        """Return by how many seconds a request lags behind the minimum rate, as far as the socket was read."""
        return (
            self._frames.lateness(now, self._server.limits.frame_bytes_per_second) if self._reading else 0.0
        )

    def holds_wanted_memory(self, now: float) -> bool:
        """Return whether other requests wait for memory that this connection holds without progress."""
        limits = self._server.limits
        if self._frames.backlog is not None and now > self.received + limits.frame_seconds:
            return self._frames.backlog_is_wanted()
        return self.lateness(now) > limits.short_frame_seconds and self._frames.frame_is_wanted()

    # Pausing

    def pause(self, reason: int) -> None:
        """Handle no more requests until `resume` is called for the same reason."""
        self._frames.pauses |= reason
        if not self._in_event:
            self._settle()

    def resume(self, reason: int) -> None:
        self._frames.pauses &= ~reason
        if not self._in_event:
            self._settle()

    def mute(self, seconds: float) -> None:
        """Handle no more requests for some time (KIP-219); the latest end of several counts."""
        if self.closed:
            return
        end = self._server.loop.time() + seconds
        if self._muted is not None:
            if self._muted.when() >= end:
                return
            self._muted.cancel()
        self._muted = self._server.loop.call_at(end, self._unmute)
        self.pause(THROTTLED)

    def _unmute(self) -> None:
        self._muted = None
        self.received = self._now()  # time spent muted does not count as slow
        self.resume(THROTTLED)

    def _settle(self) -> None:
        """Read the socket, process the backlog, or do neither, depending on the pauses."""
        if self.closed:
            return
        frames = self._frames
        readable = not frames.pauses and frames.backlog is None
        if readable and not self._reading:
            frames.forgive(self._server.limits.frame_bytes_per_second)
            self.transport.start_reading(self._readable)
        elif self._reading and not readable:
            self.transport.stop_reading()
        self._reading = readable
        if frames.backlog is not None and not frames.pauses and not self._resuming:
            self._resuming = True
            self._server.loop.call_soon(self._go_through_backlog)

    def _go_through_backlog(self) -> None:
        self._resuming = False
        frames = self._frames
        if frames.pauses or frames.backlog is None:
            return
        self._in_event = True
        try:
            frames.feed_backlog(self)
        except RefusedFrameError as error:
            self._refuse(error)
        self._end_event()

    def _end_event(self) -> None:
        self._in_event = False
        output = self.output
        if output.parts:
            output.flush()
        frames = self._frames
        if (
            not self._reading
            or frames.pauses
            or frames.backlog is not None
            or len(self.unanswered) >= UNANSWERED_REQUESTS
            or output.queued_bytes > QUEUED_OUTPUT_BYTES
        ):
            self._weigh_answers()

    def _weigh_answers(self) -> None:
        if len(self.unanswered) >= UNANSWERED_REQUESTS or self.output.queued_bytes > QUEUED_OUTPUT_BYTES:
            self._frames.pauses |= ANSWERS
        else:
            self._frames.pauses &= ~ANSWERS
        self._settle()

    def _certified(self, principal: Principal) -> None:
        """Accept the principal of a client certificate. On SASL listeners, SASL decides instead."""
        if not self.listener.authenticates:
            self.authenticated(principal)

    def begin_authentication(self) -> None:
        """Start authentication or re-authentication: until it ends, no other request is served."""
        self._frames.handle = self._server.dispatcher.authenticate
        self._frames.allow(*self._server.limits.longest_request(is_authenticated=False))

    def authenticated(self, principal: Principal, seconds: float | None = None) -> None:
        """Complete authentication: accept every request, of any size; for `seconds` if given (KIP-368)."""
        context = self.context.authenticated(principal)
        if context.is_privileged and not self.listener.is_broker(context):
            context = context.unprivileged()
        self.context = context
        if isinstance(self._frames, TokenFrames):
            self._frames = self._frames.requests_again()
        self._frames.handle = self._server.dispatcher.dispatch
        self._frames.allow(*self._server.limits.longest_request(is_authenticated=True))
        self._forget_session_end()
        if seconds is not None:
            self._session_end = self._server.loop.call_later(seconds, self._end_session)

    def _end_session(self) -> None:
        self._session_end = None
        self._frames.handle = self._server.dispatcher.authenticate

    def _forget_session_end(self) -> None:
        if self._session_end is not None:
            self._session_end.cancel()
            self._session_end = None

    def take_tokens(self, take: Callable[[Connection, bytes], Coroutine[object, object, None]]) -> None:
        """Expect tokens without headers next (SaslHandshake 0), one at a time."""
        run = self._server.dispatcher.run
        self._frames = TokenFrames.instead_of(
            self._frames, lambda owner, token: run(owner, take(owner, token))
        )

    def send_token(self, token: bytes) -> None:
        self.output.add((len(token).to_bytes(LENGTH_BYTES, "big") + token,))
        self.output.flush()

    # Responses out

    def answered(self, request: PendingResponse) -> None:
        """Send the response of a request that had to wait, and those queued behind it."""
        unanswered = self.unanswered
        if self.closed or unanswered[0] is not request:
            return
        while unanswered and (answer := unanswered[0].answer) is not None:
            unanswered.popleft()
            self.output.add(answer)
        if not self._in_event:
            self.last_active = self._now()
            self.output.flush()
            if self._frames.pauses:
                self._weigh_answers()

    def _output_progressed(self) -> None:
        self.last_active = self._now()
        if self._frames.pauses:
            self._weigh_answers()

    def may_send_from(self, folders: Collection[str]) -> bool:
        """Return whether the output has a slice of a file in one of these folders."""
        parts = chain(self.output.parts, *(request.answer or () for request in self.unanswered))
        return any(
            isinstance(part, FileSlice) and os.path.dirname(part.file.path) in folders for part in parts
        ) or any(request.may_hold_slices for request in self.unanswered)

    # The end

    @property
    def is_quiet(self) -> bool:
        """Return whether nothing is in flight: no pending output, no unanswered request except long polls."""
        return not self.output and all(request.client_wait for request in self.unanswered)

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Register a callback for state that a client holds while it is connected."""
        if self._closing is None:
            self._closing = []
        self._closing.append(callback)

    def close(self, reason: str, level: int = logging.DEBUG) -> None:
        if self.closed:
            return
        self.closed = True
        self.context = self.context.disconnected()
        server = self._server
        if level > logging.DEBUG:
            log.log(level, "closed %r: %s", self, reason)
        if self._muted is not None:
            self._muted.cancel()
        if self._reading:
            self.transport.stop_reading()
        if self._in_event and self.output:
            self.output.flush()  # the responses to earlier requests
        self.output.close()
        self._forget_session_end()
        self._frames.close()
        self.unanswered.clear()
        self.transport.close()
        server.forget(self)
        callbacks, self._closing = self._closing, None
        for callback in callbacks or ():
            callback()

    def hold_memory(self, size: int) -> None:
        """Count a copied request against the memory pool, until `release_memory`."""
        self._server.memory.hold(self.peer[0], BACKLOG, size)

    def release_memory(self, size: int) -> None:
        self._server.memory.release(self.peer[0], BACKLOG, size)
