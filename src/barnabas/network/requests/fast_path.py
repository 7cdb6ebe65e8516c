"""Fast path for repeated requests, which are served without decoding."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.network.frames import ANSWERS
from barnabas.network.limits import QUEUED_OUTPUT_BYTES
from barnabas.network.requests.request import Request
from barnabas.network.requests.routes import Route

if TYPE_CHECKING:
    from barnabas.network.connection import Connection
    from barnabas.network.requests.dispatch import Dispatcher

_write_correlation_id: Final = Struct(">i").pack_into


class FastPath(Protocol):
    """Serves requests that repeat an earlier one without decoding them.

    Such requests have the same head; a connection remembers the length of its last one.
    """

    def serve(
        self,
        dispatcher: Dispatcher,
        connection: Connection,
        correlation_id: int,
        buffer: memoryview,
        body: int,
        end: int,
    ) -> bytearray | None:
        """Return the response, without its correlation id; empty if a `Request` was settled instead, which is
        answered already or later; None without side effects.
        """

    def learn(self, message: Any, buffer: memoryview, body: int, end: int) -> int:
        """Remember the head of a decoded request; return its length, 0 if it has none."""


def serve_fast(
    dispatcher: Dispatcher,
    connection: Connection,
    route: Route,
    known: FastPath,
    correlation_id: int,
    buffer: memoryview,
    body: int,
    end: int,
) -> bool:
    """Serve a request by its route's fast path, as `Dispatcher.dispatch` would; return False if that is not
    possible.

    It is not possible if the response has to wait for earlier ones.
    """
    if not connection.known_head or connection.unanswered or dispatcher.injections.waiting:
        return False
    try:
        served = known.serve(dispatcher, connection, correlation_id, buffer, body, end)
        if not served:
            if served is None:
                return False
            route.count.value += 1
            return True
        route.count.value += 1
        _write_correlation_id(served, 4, correlation_id)  # after the length
        now, observe = dispatcher.now, route.observe
        seconds = now() - connection.received
        observe(seconds)
        if seconds > dispatcher.slow_request_seconds:
            dispatcher.log_slow(Request(dispatcher, connection, route, correlation_id), seconds)
        output = connection.output
        output.add_bytes(served)
        if output.queued_bytes > QUEUED_OUTPUT_BYTES:
            connection.pause(ANSWERS)
    except Exception as error:
        dispatcher.fail(Request(dispatcher, connection, route, correlation_id), error)
    return True
