"""GSSAPI (RFC 4752): the client authenticates with a Kerberos ticket. Needs the extra `barnabas[kerberos]`.

CONTEXT   both sides exchange GSSAPI tokens until the security context is established
OFFER     the broker offers no security layer (TLS provides it)
CHOICE    the client accepts, and may send an authorization id, which must be its own name
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from barnabas.common.installation import extra_command
from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.authn.kerberos_names import KerberosRule, NoRuleError, short_name
from barnabas.security.authn.sasl.login import (
    Authenticated,
    AuthenticationFailedError,
    Challenge,
    invalid_credentials,
)
from barnabas.security.principal import USER, Principal

BUILD = "(it needs libkrb5-dev and a C compiler on Debian)"
NO_LAYER = b"\x01\0\0\0"  # bit mask of the security layers, and the maximum message size


class _State(Enum):
    CONTEXT = "context"
    OFFER = "offer"
    CHOICE = "choice"


class Acceptor:
    """Kerberos keys of this broker, from a keytab."""

    def __init__(self, keytab: str, principal: str, rules: tuple[KerberosRule, ...]) -> None:
        """SecuritySettingError if the keytab cannot be used."""
        gssapi = self._gssapi = _library()
        self.rules = rules
        self.realm = principal.rpartition("@")[2]
        try:
            self._credentials = gssapi.Credentials(
                usage="accept", store={"keytab": keytab}, mechs=[gssapi.MechType.kerberos]
            )
        except gssapi.exceptions.GSSError as error:
            raise SecuritySettingError(
                "sasl.jaas.config", f"names the keytab {keytab}, which cannot be used: {_message(error)}"
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
            "sasl.enabled.mechanisms",
            f"names GSSAPI, whose library is missing: {extra_command('kerberos')} {BUILD}",
        ) from None
    return gssapi


def _message(error: Any) -> str:
    return str(error).replace("\n", " ")[:200]


class GssapiExchange:
    """With the clock `now_ms` sessions end with the ticket; with None they outlive it, as in Kafka."""

    def __init__(self, acceptor: Acceptor, now_ms: Callable[[], int] | None = None) -> None:
        self._acceptor = acceptor
        self._now_ms = now_ms
        self._context = acceptor.new_context()
        self._state = _State.CONTEXT

    def blocks(self, message: bytes) -> bool:
        return True  # reads the keytab and the replay cache from disk

    def step(self, message: bytes) -> Challenge | Authenticated:
        try:
            if self._state is _State.CONTEXT:
                return self._advance(message)
            if self._state is _State.OFFER:
                return self._offer()
            return self._finish(self._context.unwrap(message).message)
        except self._acceptor.errors as error:
            raise invalid_credentials("GSSAPI", f"ticket refused: {_message(error)}") from None

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

    def _finish(self, choice: bytes) -> Authenticated:
        if choice[:1] != NO_LAYER[:1] or len(choice) < len(NO_LAYER):
            raise invalid_credentials("GSSAPI", "the client requires a security layer, but none is offered")
        principal = str(self._context.initiator_name)
        try:
            name = short_name(principal, self._acceptor.rules, self._acceptor.realm)
        except NoRuleError as error:
            raise invalid_credentials("GSSAPI", f"{principal!r} is refused: {error}") from None
        if choice[len(NO_LAYER) :].decode("utf-8", "replace") not in ("", principal, name):
            raise AuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from its principal"
            )
        return Authenticated(Principal(USER, name), expires_ms=self._ticket_end())

    def _ticket_end(self) -> int | None:
        if self._now_ms is None or self._context.lifetime is None:
            return None
        return self._now_ms() + int(self._context.lifetime * 1000)
