"""How a login ends that goes wrong, or comes out of order: counted, late, and with the connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.common.clock import Clock
from barnabas.protocol.schema import Message
from barnabas.security.context import RequestContext
from barnabas.security.authn.sasl.login import Login, OutOfOrderError

if TYPE_CHECKING:
    from barnabas.network.connection import Connection
    from barnabas.network.requests.dispatch import Request

T = TypeVar("T")


class AuthenticationPart(Protocol):
    """What the handlers need of the part of a broker that authenticates."""

    @property
    def failure_delay_seconds(self) -> float: ...

    async def in_thread(self, work: Callable[[], T]) -> T: ...

    def count(self, context: RequestContext, login: Login, *, succeeded: bool) -> None: ...


class SaslNeeds(Protocol):
    @property
    def authentication(self) -> AuthenticationPart: ...
    @property
    def clock(self) -> Clock: ...


async def out_of_order(broker: SaslNeeds, request: Request, error: OutOfOrderError, answer: Message) -> None:
    """End the connection of a client that sends what does not belong here."""
    login = request.connection.login
    assert login is not None
    if error.during_exchange:
        request.respond(answer)
    await fail(broker, request.connection, login, str(error))


async def fail(broker: SaslNeeds, connection: Connection, login: Login, detail: str) -> None:
    """End the connection of a client that cannot be answered, or has been."""
    broker.authentication.count(connection.context, login, succeeded=False)
    await asyncio.sleep(broker.authentication.failure_delay_seconds)
    connection.close(f"authentication failed: {detail}", logging.WARNING)
