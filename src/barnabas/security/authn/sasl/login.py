"""State machine of a connection's authentication.

    state      input                            next
    HANDSHAKE  ApiVersions, once                HANDSHAKE
               a mechanism that is offered      EXCHANGE
               another mechanism                FAILED
    EXCHANGE   a token                          EXCHANGE, DONE or FAILED
    DONE       the same mechanism (KIP-368)     EXCHANGE, which must end with the same principal
    FAILED     anything                         FAILED

A token before a handshake, and a handshake or ApiVersions during an exchange, are out of order and lead to FAILED. A
session without expiry cannot be re-authenticated, and other sessions at most once per second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.security.principal import Principal

# -- Server side of a SASL exchange: client tokens in, challenges out, a principal at the end ----------


class Challenge(NamedTuple):
    """The exchange continues: the client answers this message."""

    message: bytes


class Authenticated(NamedTuple):
    """The client is authenticated."""

    principal: Principal
    message: bytes = b""
    expires_ms: int | None = None
    """Expiry of the credential in epoch milliseconds; None if it does not expire."""
    token_id: str | None = None
    """Id of the delegation token used, if any."""
    is_current: Callable[[], bool] | None = None
    """Returns False once the credential is revoked; None if revocation is not detected this way."""


class AuthenticationFailedError(Exception):
    """Authentication failed. The text is sent to the client, `detail` is logged; neither contains secrets."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.detail = detail or text


class ServerExchange(Protocol):
    def step(self, message: bytes) -> Challenge | Authenticated:
        """Process the client's next token; AuthenticationFailedError ends the exchange."""
        ...

    def blocks(self, message: bytes) -> bool:
        """True if this step may block and must not run on the event loop."""
        ...


def invalid_credentials(mechanism: str, detail: str) -> AuthenticationFailedError:
    """Return an error with Kafka's text, which does not reveal the cause."""
    return AuthenticationFailedError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}",
        detail,
    )


AGAIN_SECONDS = 1.0  # minimum between re-authentications of a connection, as in Kafka


class Offered(NamedTuple):
    """A mechanism enabled on a listener."""

    exchange: Callable[[], ServerExchange]
    session_ms: int = 0
    """Time after which the client must re-authenticate (`connections.max.reauth.ms`); 0: never."""
    max_bytes: int | None = None
    """Maximum size of a message; None: only `sasl.server.max.receive.size` limits it."""


Offer = Mapping[str, Offered]
"""Mechanisms of a listener by name."""

NOTHING_OFFERED: Offer = {}


def message_limit(mechanism: str) -> str:
    """Return the setting that bounds messages of a mechanism; the SCRAM mechanisms share one."""
    return f"barnabas.sasl.{mechanism.partition('-')[0].lower()}.max.bytes"


class UnsupportedMechanismError(Exception):
    """The client requested a mechanism that the listener does not enable."""


class OutOfOrderError(Exception):
    """The client sent an unexpected request. As in Kafka, it gets an error response only during an exchange."""

    def __init__(self, text: str, *, during_exchange: bool = False) -> None:
        super().__init__(text)
        self.during_exchange = during_exchange


class SaslState(Enum):
    HANDSHAKE = "handshake"
    EXCHANGE = "exchange"
    DONE = "done"
    FAILED = "failed"


class SaslLogin:
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
        self.state = SaslState.HANDSHAKE
        self.mechanism = ""
        self.principal: Principal | None = None
        """Authenticated principal; kept during re-authentication."""
        self.is_again = False
        """True if the current or latest exchange is a re-authentication."""
        self.expires_ms: int | None = None
        self.token_id: str | None = None

    @property
    def mechanisms(self) -> list[str]:
        return list(self._offer)

    @property
    def is_done(self) -> bool:
        return self.state is SaslState.DONE

    @property
    def is_revoked(self) -> bool:
        """True if the client authenticated with a credential that is no longer valid."""
        return self._is_current is not None and not self._is_current()

    def may_not_begin(self, now: float) -> bool:
        """True if re-authentication is refused: the session does not expire, or it was renewed a moment ago."""
        return self.state is SaslState.DONE and (not self._has_end() or now < self._since + AGAIN_SECONDS)

    def _has_end(self) -> bool:
        return self.expires_ms is not None or self._offer[self.mechanism].session_ms > 0

    def ask_versions(self, *, is_valid: bool) -> None:
        """Accept ApiVersions before the handshake until one was valid; OutOfOrderError afterwards."""
        before = self.state
        if before is SaslState.EXCHANGE or (before is SaslState.HANDSHAKE and self._asked_versions):
            self.state = SaslState.FAILED
            raise OutOfOrderError(
                f"ApiVersions in the state {before.value}", during_exchange=before is SaslState.EXCHANGE
            )
        self._asked_versions = is_valid

    def begin(self, mechanism: str, now: float) -> None:
        """Start an exchange. UnsupportedMechanismError, OutOfOrderError."""
        before, self.state = self.state, SaslState.FAILED
        self.is_again = before is SaslState.DONE
        if before not in (SaslState.HANDSHAKE, SaslState.DONE):
            raise OutOfOrderError(
                "SaslHandshake during an exchange", during_exchange=before is SaslState.EXCHANGE
            )
        if self.is_again and mechanism != self.mechanism:
            raise OutOfOrderError(
                f"the client authenticated with {self.mechanism} and re-authenticates with {mechanism}"
            )
        if mechanism not in self._offer:
            raise UnsupportedMechanismError(mechanism)
        self.mechanism = mechanism
        self._exchange = self._offer[mechanism].exchange()
        if self.is_again:
            self._since = now
        self.state = SaslState.EXCHANGE

    def blocks(self, message: bytes) -> bool:
        return self._exchange is not None and self._exchange.blocks(message)

    def step(self, message: bytes) -> Challenge | Authenticated:
        """Process a token. AuthenticationFailedError, OutOfOrderError."""
        exchange = self._exchange
        if self.state is not SaslState.EXCHANGE or exchange is None:
            self.state = SaslState.FAILED
            raise OutOfOrderError("SaslAuthenticate without SaslHandshake")
        self.state = SaslState.FAILED  # unless the step succeeds
        self._check_size(message)
        result = exchange.step(message)
        if isinstance(result, Authenticated):
            self._finish(result)
        else:
            self.state = SaslState.EXCHANGE
        return result

    def _check_size(self, message: bytes) -> None:
        """Reject oversized messages before parsing them: the client is not authenticated yet."""
        limit = self._offer[self.mechanism].max_bytes
        if limit is not None and len(message) > limit:
            raise AuthenticationFailedError(
                f"Authentication failed: message of {len(message)} bytes, but {self.mechanism} allows {limit} "
                f"({message_limit(self.mechanism)})"
            )

    def _finish(self, done: Authenticated) -> None:
        self._exchange = None
        if self.principal is not None and done.principal != self.principal:
            raise AuthenticationFailedError(
                f"Cannot change principals during re-authentication from {self.principal}: {done.principal}"
            )
        self.principal, self.expires_ms, self.token_id = done.principal, done.expires_ms, done.token_id
        self._is_current = done.is_current
        self.state = SaslState.DONE

    def lifetime_ms(self, now_ms: int) -> int:
        """Return the session lifetime, limited by the mechanism and the credential's expiry; 0: unlimited."""
        session_ms = self._offer[self.mechanism].session_ms
        if self.expires_ms is None:
            return session_ms
        remaining = max(self.expires_ms - now_ms, 1)
        return min(remaining, session_ms) if session_ms > 0 else remaining
