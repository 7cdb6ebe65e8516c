"""GSSAPI (RFC 4752): the client shows a ticket of Kerberos. Needs the extra `barnabas[kerberos]`.

CONTEXT   tokens of GSSAPI go back and forth until both sides know each other
OFFER     the client has nothing more to say: we say that there is no security layer (TLS is for that)
CHOICE    the client agrees, and may say in whose name it acts, which must be its own
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.authn.kerberos_names import NoRuleError, Rule, short_name
from barnabas.security.authn.sasl.login import (
    AuthenticationFailedError,
    Challenge,
    Done,
    invalid_credentials,
)
from barnabas.security.principal import USER, Principal

EXTRA = "pip install 'barnabas[kerberos]' (it needs libkrb5-dev and a C compiler on Debian)"
NO_LAYER = b"\x01\0\0\0"  # the layers that there are, and the longest message of one


class _State(Enum):
    CONTEXT = "context"
    OFFER = "offer"
    CHOICE = "choice"


class Acceptor:
    """The keys of this broker, in a keytab."""

    def __init__(self, keytab: str, principal: str, rules: tuple[Rule, ...]) -> None:
        """SecuritySettingError when they cannot be used."""
        gssapi = self._gssapi = _library()
        self.rules = rules
        self.realm = principal.rpartition("@")[2]
        try:
            self._credentials = gssapi.Credentials(
                usage="accept", store={"keytab": keytab}, mechs=[gssapi.MechType.kerberos]
            )
        except gssapi.exceptions.GSSError as error:
            raise SecuritySettingError(
                "sasl.jaas.config", f"names the keytab {keytab}, which cannot be used: {_words(error)}"
            ) from None

    def new_context(self) -> Any:
        return self._gssapi.SecurityContext(creds=self._credentials, usage="accept")

    @property
    def errors(self) -> Any:
        return self._gssapi.exceptions.GSSError


def _library() -> Any:
    try:
        import gssapi
    except ImportError:
        raise SecuritySettingError(
            "sasl.enabled.mechanisms", f"names GSSAPI, whose library is missing: {EXTRA}"
        ) from None
    return gssapi


def _words(error: Any) -> str:
    return str(error).replace("\n", " ")[:200]


class GssapiExchange:
    """`now_ms`: the clock where sessions end with the ticket; None where they outlive it, as in Kafka."""

    def __init__(self, acceptor: Acceptor, now_ms: Callable[[], int] | None = None) -> None:
        self._acceptor = acceptor
        self._now_ms = now_ms
        self._context = acceptor.new_context()
        self._state = _State.CONTEXT

    def blocks(self, message: bytes) -> bool:
        return True  # keytabs and caches are files

    def step(self, message: bytes) -> Challenge | Done:
        try:
            if self._state is _State.CONTEXT:
                return self._advance(message)
            if self._state is _State.OFFER:
                return self._offer()
            return self._finish(self._context.unwrap(message).message)
        except self._acceptor.errors as error:
            raise invalid_credentials("GSSAPI", f"a ticket is refused: {_words(error)}") from None

    def _advance(self, message: bytes) -> Challenge:
        if not message:
            raise invalid_credentials("GSSAPI", "the first token is empty")
        token = self._context.step(message) or b""
        if not self._context.complete:
            return Challenge(token)
        self._state = _State.OFFER
        return Challenge(token) if token else self._offer()

    def _offer(self) -> Challenge:
        self._state = _State.CHOICE
        return Challenge(self._context.wrap(NO_LAYER, False).message)

    def _finish(self, choice: bytes) -> Done:
        if choice[:1] != NO_LAYER[:1] or len(choice) < len(NO_LAYER):
            raise invalid_credentials("GSSAPI", "the client wants a security layer, and none is offered")
        principal = str(self._context.initiator_name)
        try:
            name = short_name(principal, self._acceptor.rules, self._acceptor.realm)
        except NoRuleError as error:
            raise invalid_credentials("GSSAPI", f"{principal!r} is refused: {error}") from None
        if choice[len(NO_LAYER) :].decode("utf-8", "replace") not in ("", principal, name):
            raise AuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from its principal"
            )
        return Done(Principal(USER, name), expires_ms=self._ticket_end())

    def _ticket_end(self) -> int | None:
        if self._now_ms is None or self._context.lifetime is None:
            return None
        return self._now_ms() + int(self._context.lifetime * 1000)
