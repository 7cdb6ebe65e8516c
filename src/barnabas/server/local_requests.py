"""Requests that a broker sends to itself: handled like a client's, without a socket and without encoding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Handler

CLIENT_ID = "broker"


class LocalRequest:
    """What handlers need of a `Request`."""

    __slots__ = ("_answer", "api_key", "client_id", "connection", "is_large", "patience", "version", "within")

    is_abandoned = False

    is_from_broker = True

    def __init__(self, handler: Handler) -> None:
        self.api_key = handler.request_class.api_key
        self.version = handler.max_version
        self.client_id = CLIENT_ID
        self.connection = None
        self.patience = self.within = 0.0
        self.is_large = False
        self._answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def respond(self, response: Message) -> None:
        if not self._answer.done():
            self._answer.set_result(response)

    async def answer(self) -> Message:
        return await self._answer


async def answer(broker: Broker, message: Message) -> Message:
    """Have the handler of a message serve it, in its newest version."""
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
