"""Where a connection is on its way to being authenticated.

    state      input                            next
    HANDSHAKE  a mechanism that is offered      EXCHANGE
               another mechanism                FAILED
    EXCHANGE   a token                          EXCHANGE, DONE or FAILED
    DONE       the same mechanism (KIP-368)     EXCHANGE, at whose end the same principal is wanted
    FAILED     anything                         FAILED

A token before a handshake, and a handshake during an exchange, are out of order: FAILED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import AuthenticationFailedError, Challenge, Done, ServerExchange

AGAIN_SECONDS = 1.0  # between two authentications of a connection, as in Kafka


class Offered(NamedTuple):
    """A mechanism of a listener."""

    exchange: Callable[[], ServerExchange]
    session_ms: int = 0
    """After this time the client has to authenticate again (`connections.max.reauth.ms`); 0: never."""


Offer = Mapping[str, Offered]
"""The mechanisms of a listener by name."""

NOTHING_OFFERED: Offer = {}


class UnsupportedMechanismError(Exception):
    """The client wants a mechanism that is not offered."""


class OutOfOrderError(Exception):
    """The client sends what does not belong here."""


class State(Enum):
    HANDSHAKE = "handshake"
    EXCHANGE = "exchange"
    DONE = "done"
    FAILED = "failed"


class Login:
    """Times are monotonic seconds."""

    __slots__ = (
        "_exchange", "_offer", "_since", "expires_ms", "is_again", "mechanism", "principal", "state", "token_id",
    )  # fmt: skip

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._exchange: ServerExchange | None = None
        self._since = float("-inf")
        self.state = State.HANDSHAKE
        self.mechanism = ""
        self.principal: Principal | None = None
        """Who it is; kept while the client authenticates again."""
        self.is_again = False
        """Does it, or did it last, authenticate on a connection on which it had done so before?"""
        self.expires_ms: int | None = None
        self.token_id: str | None = None

    @property
    def mechanisms(self) -> list[str]:
        return list(self._offer)

    @property
    def is_done(self) -> bool:
        return self.state is State.DONE

    def is_too_soon(self, now: float) -> bool:
        """Has it authenticated a moment ago? Doing so all the time would be work for nothing."""
        return self.state is State.DONE and now < self._since + AGAIN_SECONDS

    def begin(self, mechanism: str, now: float) -> None:
        """Start an exchange. UnsupportedMechanismError, OutOfOrderError."""
        before, self.state = self.state, State.FAILED
        self.is_again = before is State.DONE
        if before not in (State.HANDSHAKE, State.DONE):
            raise OutOfOrderError("SaslHandshake during an exchange")
        if mechanism not in self._offer:
            raise UnsupportedMechanismError(mechanism)
        if self.is_again and mechanism != self.mechanism:
            raise OutOfOrderError(
                f"it has authenticated with {self.mechanism} and comes again with {mechanism}"
            )
        self.mechanism = mechanism
        self._exchange = self._offer[mechanism].exchange()
        self._since = now
        self.state = State.EXCHANGE

    def blocks(self, message: bytes) -> bool:
        return self._exchange is not None and self._exchange.blocks(message)

    def step(self, message: bytes) -> Challenge | Done:
        """Take a token. AuthenticationFailedError, OutOfOrderError."""
        exchange = self._exchange
        if self.state is not State.EXCHANGE or exchange is None:
            self.state = State.FAILED
            raise OutOfOrderError("SaslAuthenticate without SaslHandshake")
        self.state = State.FAILED  # unless it goes well
        result = exchange.step(message)
        if isinstance(result, Done):
            self._finish(result)
        else:
            self.state = State.EXCHANGE
        return result

    def _finish(self, done: Done) -> None:
        self._exchange = None
        if self.principal is not None and done.principal != self.principal:
            raise AuthenticationFailedError(
                f"Cannot change principals during re-authentication from {self.principal}: {done.principal}"
            )
        self.principal, self.expires_ms, self.token_id = done.principal, done.expires_ms, done.token_id
        self.state = State.DONE

    def lifetime_ms(self, now_ms: int) -> int:
        """How long the broker believes it: until the mechanism's limit or the credential's end; 0: for ever."""
        session_ms = self._offer[self.mechanism].session_ms
        if self.expires_ms is None:
            return session_ms
        left = max(self.expires_ms - now_ms, 1)
        return min(left, session_ms) if session_ms > 0 else left
