"""Requests that a broker sends to itself: handled like client requests, without a socket, encoding or stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.network.requests import InnerRequest
from barnabas.protocol.schema import Message
from barnabas.security import SELF

if TYPE_CHECKING:
    from barnabas.network.requests import Dispatcher


class _Serving(Protocol):
    @property
    def dispatcher(self) -> Dispatcher: ...


async def answer(broker: _Serving, message: Message) -> Message:
    """Run the handler of a request in its latest version and return the response."""
    dispatcher = broker.dispatcher
    handler = dispatcher.handlers[message.api_key]
    route = dispatcher.route_of(message.api_key, handler.max_version)
    assert route is not None
    return await InnerRequest(route, SELF).served(handler.function, broker, message)
