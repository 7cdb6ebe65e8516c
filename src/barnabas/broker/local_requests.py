"""Requests that a broker sends to itself: handled like client requests, without a socket or encoding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.protocol.schema import Message
from barnabas.security import SELF

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Dispatcher, Handler


class LocalRequest:
    """Implements the part of `Request` that handlers use."""

    __slots__ = (
        "_answer",
        "api_key",
        "client_wait",
        "connection",
        "context",
        "is_large",
        "time_budget",
        "version",
    )

    is_abandoned = False

    def __init__(self, handler: Handler) -> None:
        self.api_key = handler.request_class.api_key
        self.version = handler.max_version
        self.context = SELF
        self.connection = None
        self.client_wait = self.time_budget = 0.0
        self.is_large = False
        self._answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    @property
    def client_id(self) -> str | None:
        return self.context.client_id

    def respond(self, response: Message) -> None:
        if not self._answer.done():
            self._answer.set_result(response)

    async def answer(self) -> Message:
        return await self._answer


class _Serving(Protocol):
    @property
    def dispatcher(self) -> Dispatcher: ...


async def answer(broker: _Serving, message: Message) -> Message:
    """Run the handler of a request in its latest version and return the response."""
    handler = broker.dispatcher.handlers[message.api_key]
    request: Any = LocalRequest(handler)
    response = handler.function(broker, request, message)
    if isinstance(response, Message):
        return response
    if response is not None:
        result = await response
        if result is not None:
            return result
    answered: Message = await request.answer()
    return answered
