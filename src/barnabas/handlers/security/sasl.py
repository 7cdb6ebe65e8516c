"""SaslHandshake and SaslAuthenticate: authentication of a client.

SaslHandshake 0 and 1, SaslAuthenticate 0 to 2. After SaslHandshake 0 tokens follow without headers; after 1 each is a
SaslAuthenticate. Since version 1 of that the response has the session lifetime (KIP-368). Where a listener does
not authenticate, both are ILLEGAL_SASL_STATE. The response to a failure is delayed, to slow down guessing
(`connection.failed.authentication.delay.ms`), and ends the connection. During an exchange SaslHandshake and ApiVersions
are ILLEGAL_SASL_STATE, too, and end it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.protocol.schema import Message
from barnabas.security import RequestContext
from barnabas.security.authn.sasl import (
    Authenticated,
    AuthenticationFailedError,
    Challenge,
    OutOfOrderError,
    SaslLogin,
    UnsupportedMechanismError,
)

if TYPE_CHECKING:
    from barnabas.network import Connection
    from barnabas.network.requests import Request


# -- Failed and out-of-order authentication: counted, delayed, and closing the connection -------------

T = TypeVar("T")


class AuthenticationPart(Protocol):
    """Interface of the broker's authentication."""

    @property
    def failure_delay_seconds(self) -> float: ...

    async def in_thread(self, work: Callable[[], T]) -> T: ...

    def count(self, context: RequestContext, login: SaslLogin, *, succeeded: bool) -> None: ...


class SaslNeeds(Protocol):
    @property
    def authentication(self) -> AuthenticationPart: ...
    @property
    def clock(self) -> Clock: ...


async def out_of_order(broker: SaslNeeds, request: Request, error: OutOfOrderError, answer: Message) -> None:
    """Close the connection of a client that sends an out-of-order request."""
    login = request.connection.login
    assert login is not None
    if error.during_exchange:
        request.respond(answer)
    await fail(broker, request.connection, login, str(error))


async def fail(broker: SaslNeeds, connection: Connection, login: SaslLogin, detail: str) -> None:
    """Close the connection of a client after a failure that has been answered or has no response."""
    broker.authentication.count(connection.context, login, succeeded=False)
    await asyncio.sleep(broker.authentication.failure_delay_seconds)
    connection.close(f"authentication failed: {detail}", logging.WARNING)


async def sasl_handshake(
    broker: SaslNeeds, request: Request, message: SaslHandshakeRequest
) -> SaslHandshakeResponse | None:
    connection = request.connection
    login = connection.login
    if login is None or login.may_not_begin(broker.clock.monotonic()):
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [])
    try:
        login.begin(message.mechanism, broker.clock.monotonic())
    except UnsupportedMechanismError:
        answer = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, login.mechanisms)
        request.respond(answer)
        await fail(broker, connection, login, f"the mechanism {message.mechanism!r} is not enabled")
        return None
    except OutOfOrderError as error:
        await out_of_order(broker, request, error, SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, []))
        return None
    connection.begin_authentication()
    if request.version == 0:
        connection.take_tokens(partial(take_token, broker))
    return SaslHandshakeResponse(ErrorCode.NONE, login.mechanisms)


async def sasl_authenticate(
    broker: SaslNeeds, request: Request, message: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | None:
    connection = request.connection
    login = connection.login
    if login is None or login.is_done:
        text = "SaslAuthenticate request received after successful authentication"
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text)
    try:
        result = await _step(broker, connection, login, bytes(message.auth_bytes))
    except AuthenticationFailedError as error:
        await asyncio.sleep(broker.authentication.failure_delay_seconds)
        request.respond(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)))
        connection.close(f"authentication failed: {error.detail}", logging.WARNING)
        return None
    except OutOfOrderError as error:
        await fail(broker, connection, login, str(error))
        return None
    if connection.closed:  # meanwhile
        return None
    lifetime_ms = _authenticated(broker, connection, login) if isinstance(result, Authenticated) else 0
    return SaslAuthenticateResponse(auth_bytes=result.message, session_lifetime_ms=lifetime_ms)


async def take_token(broker: SaslNeeds, connection: Connection, token: bytes) -> None:
    """The same for a token without a header. Only success has a response, as in Kafka."""
    login = connection.login
    assert login is not None
    try:
        result = await _step(broker, connection, login, token)
    except AuthenticationFailedError as error:
        await asyncio.sleep(broker.authentication.failure_delay_seconds)
        connection.close(f"authentication failed: {error.detail}", logging.WARNING)
        return
    if connection.closed:  # meanwhile
        return
    connection.send_token(result.message)
    if isinstance(result, Authenticated):
        _authenticated(broker, connection, login)


async def _step(
    broker: SaslNeeds, connection: Connection, login: SaslLogin, token: bytes
) -> Challenge | Authenticated:
    try:
        if login.blocks(token):
            return await broker.authentication.in_thread(partial(login.step, token))
        return login.step(token)
    except AuthenticationFailedError:
        broker.authentication.count(connection.context, login, succeeded=False)
        raise


def _authenticated(broker: SaslNeeds, connection: Connection, login: SaslLogin) -> int:
    """Complete the authentication; return the session lifetime in milliseconds, or 0."""
    principal = login.principal
    assert principal is not None
    broker.authentication.count(connection.context, login, succeeded=True)
    lifetime_ms = login.lifetime_ms(broker.clock.now_ms())
    connection.authenticated(principal, lifetime_ms / 1000 if lifetime_ms > 0 else None)
    return lifetime_ms
