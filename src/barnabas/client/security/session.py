"""SASL session of a connection: authentication and re-authentication (KIP-368)."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.client.errors import AuthenticationError, ClientError, RequestTimeoutError
from barnabas.client.security.guard import Guard
from barnabas.client.security.scram import Exchange
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.protocol.schema import Message

# -- A SASL exchange as requests to a broker: SaslHandshake names the mechanism, SaslAuthenticate carries its messages

API_KEYS = frozenset({SaslHandshakeRequest.api_key, SaslAuthenticateRequest.api_key})
HANDSHAKE_VERSION = 1  # after version 0 the messages would follow without headers, as before Kafka 1.0

Ask = Callable[[Message, int | None], Awaitable[Any]]


async def authenticate(ask: Ask, mechanism: str, exchange: Exchange) -> float | None:
    """Authenticate; returns the session lifetime in seconds (KIP-368), None if unlimited. AuthenticationError if
    either side fails to prove its identity."""
    handshake: SaslHandshakeResponse = await ask(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)
    _check_mechanism(handshake, mechanism)
    message = next(exchange)
    while True:
        answer: SaslAuthenticateResponse = await ask(SaslAuthenticateRequest(auth_bytes=message), None)
        if answer.error_code:
            raise AuthenticationError(answer.error_message or "the broker rejected the user name or password")
        try:
            message = exchange.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer.session_lifetime_ms / 1000 if answer.session_lifetime_ms > 0 else None


def _check_mechanism(answer: SaslHandshakeResponse, mechanism: str) -> None:
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationError(f"the broker does not offer the mechanism {mechanism}; it offers {offered}")
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationError(
            "the broker does not use SASL on this port: set security.protocol to PLAINTEXT or SSL"
        )
    if answer.error_code:
        raise AuthenticationError(
            f"the broker rejected the mechanism {mechanism} (error {answer.error_code})"
        )


RENEWED_AT = (0.85, 0.95)  # of the session lifetime, randomized as in Kafka's clients
RENEWAL_TIMEOUT = 30.0  # seconds: the broker first answers requests in flight

Frame = list[Any]


class Session:
    """The session of one connection. It is renewed when a request is to be written and its end is near; requests wait
    meanwhile, because the broker would take them for a part of the exchange, and are then sent in order."""

    def __init__(
        self,
        broker: str,
        guard: Guard,
        ask: Ask,
        write: Callable[[Frame], None],
        end: Callable[[ClientError], None],
    ) -> None:
        self.renewals = 0
        self._broker = broker
        self._guard = guard
        self._ask = ask
        self._write = write
        self._end = end
        self._ends_at = math.inf
        self._held: Frame | None = None
        self._renewal: asyncio.Task[None] | None = None  # keeps a reference: asyncio holds tasks weakly

    async def begin(self) -> None:
        """Authenticate; AuthenticationError is not retriable."""
        mechanism = str(self._guard.mechanism)
        began = time.monotonic()
        try:
            lifetime = await authenticate(self._ask, mechanism, await self._guard.new_exchange())
        except AuthenticationError as error:
            message = f"{self._broker} rejected this client ({mechanism}): {error}"
            raise AuthenticationError(message) from None
        self._ends_at = math.inf if lifetime is None else began + lifetime * random.uniform(*RENEWED_AT)

    def holds(self, api_key: int, frame: Frame) -> bool:
        """True if the request is queued until re-authentication completes."""
        if api_key in API_KEYS:
            return False
        if self._held is None and time.monotonic() >= self._ends_at:
            self._held = []
            self._renewal = asyncio.get_running_loop().create_task(self._renew())
        if self._held is None:
            return False
        self._held += frame
        return True

    async def _renew(self) -> None:
        try:
            async with asyncio.timeout(RENEWAL_TIMEOUT):
                await self.begin()
        except TimeoutError:
            self._end(RequestTimeoutError(f"{self._broker} did not renew the session of this client"))
        except ClientError as error:
            self._end(error)
        except Exception as error:  # of a coroutine that the caller gave for tokens
            self._end(AuthenticationError(f"cannot get a token for {self._broker}: {error}"))
        else:
            self.renewals += 1
            held, self._held = self._held or [], None
            self._write(held)
