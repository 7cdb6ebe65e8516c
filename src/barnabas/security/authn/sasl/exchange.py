"""A SASL exchange as the broker sees it: tokens of the client in, challenges out, a principal at the end.

An exchange is used for one authentication and does no I/O on the loop. A step that may wait for another server, or that
computes for milliseconds, says so (`blocks`): it is run in a thread.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas.security.principal import Principal


class Challenge(NamedTuple):
    """The client has to say more."""

    message: bytes


class Done(NamedTuple):
    """The client is who it claims to be."""

    principal: Principal
    message: bytes = b""
    expires_ms: int | None = None
    """When the credential ends, by the clock; None: never."""
    token_id: str | None = None
    """Of the delegation token that it was, if it was one."""


class AuthenticationFailedError(Exception):
    """The client is not believed. The text is told to it; `detail` is for the log, and neither holds a secret."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.detail = detail or text


class ServerExchange(Protocol):
    def step(self, message: bytes) -> Challenge | Done:
        """Take the client's next token; AuthenticationFailedError ends the exchange."""
        ...

    def blocks(self, message: bytes) -> bool:
        """May this step take longer than the loop can wait?"""
        ...


def invalid_credentials(mechanism: str, detail: str) -> AuthenticationFailedError:
    """In Kafka's words, which are the same whatever was wrong."""
    return AuthenticationFailedError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}",
        detail,
    )
