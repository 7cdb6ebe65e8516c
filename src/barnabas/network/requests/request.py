"""One request, from its first stage to its response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.network.connection import Connection
    from barnabas.network.output import Part
    from barnabas.network.requests.dispatch import Dispatcher
    from barnabas.network.requests.routes import Route

_NO_PARTS: tuple[Part, ...] = ()


class Request:
    """One request until it is answered, which happens once: now, later, or (acks=0) without a response."""

    __slots__ = (
        "answer",
        "api_key",
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

    charge: Any  # of a request that counts against quotas (`account.QuotaChargedRequest`); others have none

    def __init__(
        self, dispatcher: Dispatcher, connection: Connection, route: Route, correlation_id: int
    ) -> None:
        self.dispatcher = dispatcher
        self.connection = connection
        self.route = route
        self.api_key = route.api_key
        self.version = route.version
        self.correlation_id = correlation_id
        self.context = connection.context
        self.received = connection.received
        self.client_wait = 0.0  # seconds of the client's long poll, which do not count as slow
        self.time_budget = (
            0.0  # the client's timeout in seconds, if the request has one and the handler may need it
        )
        self.answer: Sequence[Part] | None = None
        self.is_queued = False
        self.is_large = False  # the response has many elements: it is encoded in slices

    def __repr__(self) -> str:
        return f"{self.route.name} version {self.version} on {self.connection!r}"

    @property
    def is_abandoned(self) -> bool:
        """True when the client has disconnected."""
        return self.connection.closed

    @property
    def client_id(self) -> str | None:
        return self.context.client_id

    def respond(self, response: Message) -> None:
        """Send the response; does nothing when the client has disconnected."""
        if self.connection.closed:
            return
        if self.is_large:
            self.dispatcher.respond_in_turns(self, response)
            return
        try:
            answer = self.route.write(self.correlation_id, response)
        except Exception as error:  # a response that cannot be encoded must not block the connection
            self.dispatcher.fail(self, error)
        else:
            self.finish(answer)

    def completed(self, response: Message) -> Message:
        """Pass a response through the stages before it is encoded (`StagedRequest`)."""
        return response

    def respond_nothing(self) -> None:
        """Complete the request without a response, so that the next responses are sent."""
        if not self.connection.closed:
            self.finish(_NO_PARTS)

    def finish(self, answer: Sequence[Part]) -> None:
        """Send an encoded response."""
        if self.answer is not None:
            raise RuntimeError(f"{self!r} was answered twice")
        self.answer = answer
        self.dispatcher.finished(self)
        if self.is_queued:
            self.connection.answered(self)
