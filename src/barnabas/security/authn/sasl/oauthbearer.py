"""OAUTHBEARER (RFC 7628): the client presents a token signed by an identity provider.

A refused token is answered with a JSON challenge; after the client's one-byte reply the exchange fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from barnabas.security.authn.sasl.login import (
    Authenticated,
    AuthenticationFailedError,
    Challenge,
    invalid_credentials,
)
from barnabas.security.authn.sasl.scram import unescaped
from barnabas.security.jwt.verification import InvalidTokenError, JwtRules, Keys, VerifiedToken, check_token
from barnabas.security.principal import USER, Principal

_REFUSAL = '{"status":"invalid_token"}'
_HEADER = re.compile(r"n,(?:a=([^,\0]+))?,")
_PAIR = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]*)")
_SEPARATOR = "\x01"


class OAuthBearerExchange:
    """`clock`: epoch seconds."""

    def __init__(self, keys: Keys, rules: JwtRules, clock: Callable[[], float]) -> None:
        self._keys = keys
        self._rules = rules
        self._now = clock
        self._refused: AuthenticationFailedError | None = None

    def blocks(self, message: bytes) -> bool:
        return self._refused is None

    def step(self, message: bytes) -> Challenge | Authenticated:
        if self._refused is not None:
            raise self._refused
        authorization_id, text = _parsed(message)
        try:
            token = check_token(text, self._keys, self._rules, self._now())
        except InvalidTokenError as error:
            self._refused = AuthenticationFailedError(_REFUSAL, f"token refused: {error}")
            return Challenge(_REFUSAL.encode())
        return self._done(authorization_id, token)

    def _done(self, authorization_id: str, token: VerifiedToken) -> Authenticated:
        if authorization_id and authorization_id != token.subject:
            raise AuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        keys, key = self._keys, token.key
        is_current = None if key is None else lambda: keys.holds(key)
        return Authenticated(
            Principal(USER, token.subject), expires_ms=token.expires_ms, is_current=is_current
        )


def _parsed(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the token."""
    try:
        header, _, rest = message.decode().partition(_SEPARATOR)
    except UnicodeDecodeError:
        raise _malformed() from None
    match = _HEADER.fullmatch(header)
    if match is None or not rest.endswith(_SEPARATOR * 2):
        raise _malformed()
    pairs = [_PAIR.fullmatch(pair) for pair in rest[:-2].split(_SEPARATOR)]
    values = [pair[2] for pair in pairs if pair is not None and pair[1] == "auth"]
    if None in pairs or len(values) != 1:
        raise _malformed()
    scheme, _, token = values[0].partition(" ")
    authorization_id = unescaped(match[1] or "")
    if scheme.lower() != "bearer" or authorization_id is None:
        raise _malformed()
    return authorization_id, token.strip()


def _malformed() -> AuthenticationFailedError:
    return invalid_credentials("OAUTHBEARER", "the message does not conform to RFC 7628")
