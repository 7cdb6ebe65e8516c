"""A SASL exchange as requests to a broker: SaslHandshake names the mechanism, SaslAuthenticate carries its messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.client.errors import AuthenticationError
from barnabas.client.security.scram import Exchange
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.protocol.schema import Message

API_KEYS = frozenset({SaslHandshakeRequest.api_key, SaslAuthenticateRequest.api_key})
HANDSHAKE_VERSION = 1  # after version 0 the messages would follow without headers, as before Kafka 1.0

Ask = Callable[[Message, int | None], Awaitable[Any]]


async def authenticate(ask: Ask, mechanism: str, exchange: Exchange) -> float | None:
    """Seconds until the broker wants to know again who this is (KIP-368); None: never. AuthenticationError if it
    does not believe it, or if it is not who it claims."""
    handshake: SaslHandshakeResponse = await ask(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)
    _check_mechanism(handshake, mechanism)
    message = next(exchange)
    while True:
        answer: SaslAuthenticateResponse = await ask(SaslAuthenticateRequest(auth_bytes=message), None)
        if answer.error_code:
            raise AuthenticationError(answer.error_message or "the broker refuses name or password")
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
            "the broker wants no SASL on this port: security.protocol must be PLAINTEXT or SSL there"
        )
    if answer.error_code:
        raise AuthenticationError(f"the broker refuses the mechanism {mechanism} (error {answer.error_code})")
