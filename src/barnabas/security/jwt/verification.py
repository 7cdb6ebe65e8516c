"""Tokens that an identity provider has signed (RFC 7519): is this one good, and whose is it?

The algorithm of a token is taken from a list of ours and must fit the key. So neither a token without a signature nor
one that is signed with a public key as if that were a secret counts (CVE-2026-33557, CVE-2026-110985).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from barnabas.security.jwt.jwk import ALGORITHMS, PublicKey

MAX_TOKEN = 64 * 1024
_FURTHEST = 1 << 40  # seconds: some 35,000 years


class InvalidTokenError(Exception):
    """The token does not count; the text says why, and shows nothing of it."""


class Rules(NamedTuple):
    """What a token must say."""

    issuer: str
    audiences: frozenset[str]
    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    skew_seconds: float = 30.0
    subject_claim: str = "sub"
    scope_claim: str = "scope"


class Token(NamedTuple):
    subject: str
    expires_ms: int
    scope: frozenset[str]
    claims: dict[str, Any]
    """All that it says."""
    key: PublicKey | None = None
    """The key that has signed it."""


class Keys(Protocol):
    def find(self, key_id: str | None) -> PublicKey | None:
        """The key of that name; of a token that names none, the only one there is. May take long."""
        ...

    def holds(self, key: PublicKey) -> bool:
        """Is this key still among them?"""
        ...


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    crit: Any = None


def check_token(text: str, keys: Keys, rules: Rules, now: float) -> Token:
    """`now` in epoch seconds. InvalidTokenError says what is wrong with it."""
    parts = text.split(".")
    if len(parts) != 3 or len(text) > MAX_TOKEN:
        raise InvalidTokenError("it is no signed JWT")
    header = _decoded(parts[0], _Header)
    if header.alg not in rules.algorithms:
        raise InvalidTokenError(f"its algorithm {header.alg[:20]!r} is not allowed")
    if header.crit is not None:
        raise InvalidTokenError("it wants an extension to be understood (crit)")
    key = keys.find(header.kid)
    if key is None:
        raise InvalidTokenError("its key is not among those of the identity provider")
    if not key.has_signed(header.alg, f"{parts[0]}.{parts[1]}".encode(), _bytes(parts[2])):
        raise InvalidTokenError("its signature is wrong")
    return _claims(_decoded(parts[1], dict[str, Any]), rules, now)._replace(key=key)


def _claims(claims: dict[str, Any], rules: Rules, now: float) -> Token:
    if claims.get("iss") != rules.issuer:
        raise InvalidTokenError("it comes from another issuer (sasl.oauthbearer.expected.issuer)")
    if not rules.audiences & _words(claims.get("aud"), split=False):
        raise InvalidTokenError("it is meant for another audience (sasl.oauthbearer.expected.audience)")
    expires = _seconds(claims, "exp")
    if now >= expires + rules.skew_seconds:
        raise InvalidTokenError("it has expired")
    for name in ("iat", "nbf"):
        if (name == "iat" or name in claims) and _seconds(claims, name) > now + rules.skew_seconds:
            raise InvalidTokenError(f"it is not valid yet ({name})")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidTokenError(f"it does not say whose it is ({rules.subject_claim})")
    scope = _words(claims.get(rules.scope_claim), split=True)
    return Token(subject, int(expires * 1000), scope, claims)


def _seconds(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _FURTHEST:
        raise InvalidTokenError(f"{name} is no time")
    return float(value)


def _words(value: object, *, split: bool) -> frozenset[str]:
    """A text, of words or of one, or a list of texts."""
    if isinstance(value, str):
        return frozenset(value.split()) if split else frozenset({value})
    if isinstance(value, list):
        return frozenset(each for each in value if isinstance(each, str))
    return frozenset()


def _decoded(part: str, kind: Callable[..., Any]) -> Any:
    try:
        return msgspec.json.decode(_bytes(part), type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        raise InvalidTokenError("it is no signed JWT") from None


def _bytes(part: str) -> bytes:
    """Base64 for URLs, without padding and without anything else."""
    try:
        return base64.b64decode(part.encode("ascii") + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidTokenError("it is no signed JWT") from None
