"""Where a connection is on its way to being authenticated.

    state      input                            next
    HANDSHAKE  ApiVersions, once                HANDSHAKE
               a mechanism that is offered      EXCHANGE
               another mechanism                FAILED
    EXCHANGE   a token                          EXCHANGE, DONE or FAILED
    DONE       the same mechanism (KIP-368)     EXCHANGE, at whose end the same principal is wanted
    FAILED     anything                         FAILED

A token before a handshake, and a handshake or ApiVersions during an exchange, are out of order: FAILED. Who has
authenticated without an end cannot do it again, and who has done it again, not within the next second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.security.principal import Principal

# -- A SASL exchange as the broker sees it: tokens of the client in, challenges out, a principal at the end


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
    is_current: Callable[[], bool] | None = None
    """Whether the credential is still accepted; None where changes reach the broker in another way, or not at all."""


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


AGAIN_SECONDS = 1.0  # between two authentications of a connection after its first, as in Kafka


class Offered(NamedTuple):
    """A mechanism of a listener."""

    exchange: Callable[[], ServerExchange]
    session_ms: int = 0
    """After this time the client has to authenticate again (`connections.max.reauth.ms`); 0: never."""
    max_bytes: int | None = None
    """The longest message; None: as long as the request may be (`sasl.server.max.receive.size`)."""


Offer = Mapping[str, Offered]
"""The mechanisms of a listener by name."""

NOTHING_OFFERED: Offer = {}


def message_limit(mechanism: str) -> str:
    """The setting that bounds the messages of a mechanism; all mechanisms of SCRAM have one."""
    return f"barnabas.sasl.{mechanism.partition('-')[0].lower()}.max.bytes"


class UnsupportedMechanismError(Exception):
    """The client wants a mechanism that is not offered."""


class OutOfOrderError(Exception):
    """The client sends what does not belong here. During an exchange it is told so, as in Kafka."""

    def __init__(self, text: str, *, during_exchange: bool = False) -> None:
        super().__init__(text)
        self.during_exchange = during_exchange


class State(Enum):
    HANDSHAKE = "handshake"
    EXCHANGE = "exchange"
    DONE = "done"
    FAILED = "failed"


class Login:
    """Times are monotonic seconds."""

    __slots__ = (
        "_asked_versions", "_exchange", "_is_current", "_offer", "_since", "expires_ms", "is_again", "mechanism",
        "principal", "state", "token_id",
    )  # fmt: skip

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._exchange: ServerExchange | None = None
        self._since = float("-inf")
        self._asked_versions = False
        self._is_current: Callable[[], bool] | None = None
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

    @property
    def is_revoked(self) -> bool:
        """True if it has authenticated with a credential that is not accepted any more."""
        return self._is_current is not None and not self._is_current()

    def may_not_begin(self, now: float) -> bool:
        """Has it authenticated for good, or again a moment ago? Doing so all the time would be work for nothing."""
        return self.state is State.DONE and (not self._has_end() or now < self._since + AGAIN_SECONDS)

    def _has_end(self) -> bool:
        return self.expires_ms is not None or self._offer[self.mechanism].session_ms > 0

    def ask_versions(self, *, is_valid: bool) -> None:
        """A client asks before it begins, until it has an answer to a valid question. OutOfOrderError."""
        before = self.state
        if before is State.EXCHANGE or (before is State.HANDSHAKE and self._asked_versions):
            self.state = State.FAILED
            raise OutOfOrderError(
                f"ApiVersions in the state {before.value}", during_exchange=before is State.EXCHANGE
            )
        self._asked_versions = is_valid

    def begin(self, mechanism: str, now: float) -> None:
        """Start an exchange. UnsupportedMechanismError, OutOfOrderError."""
        before, self.state = self.state, State.FAILED
        self.is_again = before is State.DONE
        if before not in (State.HANDSHAKE, State.DONE):
            raise OutOfOrderError(
                "SaslHandshake during an exchange", during_exchange=before is State.EXCHANGE
            )
        if self.is_again and mechanism != self.mechanism:
            raise OutOfOrderError(
                f"it has authenticated with {self.mechanism} and comes again with {mechanism}"
            )
        if mechanism not in self._offer:
            raise UnsupportedMechanismError(mechanism)
        self.mechanism = mechanism
        self._exchange = self._offer[mechanism].exchange()
        if self.is_again:
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
        self._check_size(message)
        result = exchange.step(message)
        if isinstance(result, Done):
            self._finish(result)
        else:
            self.state = State.EXCHANGE
        return result

    def _check_size(self, message: bytes) -> None:
        """Before anything of it is parsed: the client is not known yet."""
        limit = self._offer[self.mechanism].max_bytes
        if limit is not None and len(message) > limit:
            raise AuthenticationFailedError(
                f"Authentication failed: a message of {len(message)} bytes, and {self.mechanism} allows {limit} "
                f"({message_limit(self.mechanism)})"
            )

    def _finish(self, done: Done) -> None:
        self._exchange = None
        if self.principal is not None and done.principal != self.principal:
            raise AuthenticationFailedError(
                f"Cannot change principals during re-authentication from {self.principal}: {done.principal}"
            )
        self.principal, self.expires_ms, self.token_id = done.principal, done.expires_ms, done.token_id
        self._is_current = done.is_current
        self.state = State.DONE

    def lifetime_ms(self, now_ms: int) -> int:
        """How long the broker believes it: until the mechanism's limit or the credential's end; 0: for ever."""
        session_ms = self._offer[self.mechanism].session_ms
        if self.expires_ms is None:
            return session_ms
        left = max(self.expires_ms - now_ms, 1)
        return min(left, session_ms) if session_ms > 0 else left
