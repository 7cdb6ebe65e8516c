"""One request, from its first stage to its response.

A handler returns the response; or it returns None and calls `respond` later; or it is a coroutine. Stages that change
the response are in `after`, from the first stage to the last one: a response passes them in reverse order, once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Protocol, final

from barnabas.protocol.api import ApiKey
from barnabas.protocol.schema import Message
from barnabas.security.authz import FULL_ACCESS

if TYPE_CHECKING:
    from barnabas.network.connection import Connection
    from barnabas.network.output import Part
    from barnabas.network.requests.routes import HandlerFunction, Result, Route
    from barnabas.network.requests.time_slices import Stopwatch
    from barnabas.security import RequestContext
    from barnabas.security.authz import Access

_NO_PARTS: tuple[Part, ...] = ()


class RequestDispatcher(Protocol):
    """The dispatcher of a request, as far as the request and its handler use it."""

    refused_as_broker: Counter[str]

    @property
    def broker(self) -> object: ...
    def call(self, request: Request, message: Message, function: HandlerFunction) -> Result[Message]: ...
    def settle(self, connection: Connection, request: Request, response: Result[Message]) -> None: ...
    def finished(self, request: Request) -> None: ...
    def fail(self, request: Request, error: Exception) -> None: ...
    def respond_in_slices(self, request: Request, response: Message) -> None: ...
    def finish_in_slices(
        self, request: Request, coroutine: Coroutine[object, object, Message | None]
    ) -> None: ...


@final
class Answer:
    """Result of a stage that ends the request: its response, or None if the connection has been closed."""

    __slots__ = ("response",)

    def __init__(self, response: Message | None) -> None:
        self.response = response


class StageCompletion:
    """Second half of a stage, for the end of the request."""

    __slots__ = ()

    def answered(self, request: Request, response: Message) -> Message:
        """Return the response for the client."""
        return response

    def unanswered(self, request: Request) -> None:
        """The request has no response (acks=0)."""


class Request:
    """One request until it is answered, which happens once: now, later, or (acks=0) without a response."""

    __slots__ = (
        "access",
        "after",
        "answer",
        "charge",
        "client_wait",
        "connection",
        "context",
        "correlation_id",
        "dispatcher",
        "is_large",
        "is_queued",
        "received",
        "route",
        "time_budget",
        "version",
    )  # fmt: skip

    access: Access  # set by the authorize stage; `access_of` returns it
    charge: Stopwatch | None  # set by the quota stage

    def __init__(
        self, dispatcher: RequestDispatcher, connection: Connection, route: Route, correlation_id: int
    ) -> None:
        self.dispatcher = dispatcher
        self.connection = connection
        self.route = route
        self.version = route.version
        self.correlation_id = correlation_id
        self.context = connection.context
        self.received = connection.received
        self.client_wait = 0.0  # seconds of the client's long poll, which do not count as slow
        self.time_budget = (
            0.0  # the client's timeout in seconds, if the request has one and the handler may need it
        )
        self.answer: Sequence[Part] | None = None
        self.after: list[StageCompletion] | None = None  # None on routes without stages
        self.is_queued = False
        self.is_large = False  # the response has many elements: it is encoded in slices

    def __repr__(self) -> str:
        return f"{self.label} on {self.connection!r}"

    @property
    def is_abandoned(self) -> bool:
        """True when the client has disconnected."""
        return self.connection.closed

    @property
    def label(self) -> str:
        return f"{self.route.name} version {self.version}"

    @property
    def may_hold_slices(self) -> bool:
        """True for a fetch of very many partitions: it holds slices of files before it has a response."""
        return self.is_large and self.answer is None and self.route.api_key == ApiKey.FETCH

    @property
    def client_id(self) -> str | None:
        return self.context.client_id

    def respond(self, response: Message) -> None:
        """Send the response; does nothing when the client has disconnected."""
        if self.after is not None:
            response = self.completed(response)
        if self.connection.closed:
            return
        if self.is_large:
            self.dispatcher.respond_in_slices(self, response)
            return
        try:
            answer = self.route.write(self.correlation_id, response)
        except Exception as error:  # a response that cannot be encoded must not block the connection
            self.dispatcher.fail(self, error)
        else:
            self.finish(answer)

    def completed(self, response: Message) -> Message:
        """Pass a response through the stages; a second call changes nothing."""
        after = self.after
        while after:
            response = after.pop().answered(self, response)
        return response

    def respond_nothing(self) -> None:
        """Complete the request without a response, so that the next responses are sent."""
        self._complete_unanswered()
        if not self.connection.closed:
            self.finish(_NO_PARTS)

    def _complete_unanswered(self) -> None:
        after = self.after
        while after:
            after.pop().unanswered(self)

    def close(self, reason: str) -> None:
        """Close the client's connection instead of sending a response."""
        self.connection.close(reason)

    def finish(self, answer: Sequence[Part]) -> None:
        """Send an encoded response."""
        if self.answer is not None:
            raise RuntimeError(f"{self!r} was answered twice")
        self.answer = answer
        self.dispatcher.finished(self)
        if self.is_queued:
            self.connection.answered(self)


class InnerRequest(Request):
    """A part of a large request, a request in an Envelope, or one that the broker sends to itself.

    Its response is the result of `future`: None if it needs no response. It has no dispatcher. Only parts have a
    connection; handlers that are called in another way must not use it.
    """

    __slots__ = ("future",)

    def __init__(self, route: Route, context: RequestContext, connection: Connection | None = None) -> None:
        self.connection = connection  # type: ignore[assignment]  # see above
        self.route = route
        self.version = route.version
        self.context = context
        self.client_wait = self.time_budget = 0.0
        self.after = None
        self.is_large = True  # it is served in slices, whatever its size
        self.future: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"{self.label} for {self.context.host}"

    @property
    def is_abandoned(self) -> bool:
        return self.connection is not None and self.connection.closed

    def respond(self, response: Message) -> None:
        response = self.completed(response)
        if not self.future.done():
            self.future.set_result(response)

    def respond_nothing(self) -> None:
        self._complete_unanswered()
        if not self.future.done():
            self.future.set_result(None)

    async def served(self, function: HandlerFunction, broker: object, message: Message) -> Message:
        """Call a handler that always answers, and return its response."""
        result = function(broker, self, message)
        response = await result if isinstance(result, Coroutine) else result
        if response is None:
            response = await self.future
        assert response is not None  # only a part of a Produce needs no response
        return response


def access_of(request: Request) -> Access:
    """Return the rights of a request; without an authorizer everything is allowed."""
    return getattr(request, "access", FULL_ACCESS)
