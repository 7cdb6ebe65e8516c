"""Verification of tokens signed by an identity provider (RFC 7519).

The algorithm of a token must be on our list and match the type of the key. This rejects unsigned tokens and tokens
that use a public key as an HMAC secret (CVE-2026-33557, CVE-2026-110985).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from barnabas.security.jwt.jwks import ALGORITHMS, PublicKey

MAX_TOKEN = 64 * 1024
_MAX_TIME = 1 << 40  # seconds: some 35,000 years


class InvalidTokenError(Exception):
    """Invalid token; the text gives the reason and quotes nothing of the token's claims."""


class JwtRules(NamedTuple):
    """Requirements on a token."""

    issuer: str
    audiences: frozenset[str]
    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    skew_seconds: float = 30.0
    subject_claim: str = "sub"
    scope_claim: str = "scope"


class VerifiedToken(NamedTuple):
    subject: str
    expires_ms: int
    scope: frozenset[str]
    claims: dict[str, Any]
    """All claims of the token."""
    key: PublicKey | None = None
    """The key that signed it."""


class Keys(Protocol):
    def find(self, key_id: str | None) -> PublicKey | None:
        """Return the key with this id; for a token without key id, the only key. May block."""
        ...

    def holds(self, key: PublicKey) -> bool:
        """True if the provider still publishes the key."""
        ...


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    crit: Any = None


def check_token(text: str, keys: Keys, rules: JwtRules, now: float) -> VerifiedToken:
    """Verify a token; InvalidTokenError if it is invalid. `now` is in epoch seconds."""
    parts = text.split(".")
    if len(parts) != 3 or len(text) > MAX_TOKEN:
        raise InvalidTokenError("not a signed JWT")
    header = _decoded(parts[0], _Header)
    if header.alg not in rules.algorithms:
        raise InvalidTokenError(f"the algorithm {header.alg[:20]!r} is not allowed")
    if header.crit is not None:
        raise InvalidTokenError("the token requires an unsupported extension (crit)")
    key = keys.find(header.kid)
    if key is None:
        raise InvalidTokenError("the identity provider does not publish the token's key")
    if not key.has_signed(header.alg, f"{parts[0]}.{parts[1]}".encode(), _bytes(parts[2])):
        raise InvalidTokenError("the signature is invalid")
    return _claims(_decoded(parts[1], dict[str, Any]), rules, now)._replace(key=key)


def _claims(claims: dict[str, Any], rules: JwtRules, now: float) -> VerifiedToken:
    if claims.get("iss") != rules.issuer:
        raise InvalidTokenError("the issuer does not match (sasl.oauthbearer.expected.issuer)")
    if not rules.audiences & _words(claims.get("aud"), split=False):
        raise InvalidTokenError("the audience does not match (sasl.oauthbearer.expected.audience)")
    expires = _seconds(claims, "exp")
    if now >= expires + rules.skew_seconds:
        raise InvalidTokenError("the token has expired")
    for name in ("iat", "nbf"):
        if (name == "iat" or name in claims) and _seconds(claims, name) > now + rules.skew_seconds:
            raise InvalidTokenError(f"the token is not valid yet ({name})")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidTokenError(f"the token has no subject (claim {rules.subject_claim})")
    scope = _words(claims.get(rules.scope_claim), split=True)
    return VerifiedToken(subject, int(expires * 1000), scope, claims)


def _seconds(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_TIME:
        raise InvalidTokenError(f"the claim {name} is not a valid time")
    return float(value)


def _words(value: object, *, split: bool) -> frozenset[str]:
    """Values of a claim that is a string (with `split`, of words) or a list of strings."""
    if isinstance(value, str):
        return frozenset(value.split()) if split else frozenset({value})
    if isinstance(value, list):
        return frozenset(each for each in value if isinstance(each, str))
    return frozenset()


def _decoded(part: str, kind: Callable[..., Any]) -> Any:
    try:
        return msgspec.json.decode(_bytes(part), type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        raise InvalidTokenError("not a signed JWT") from None


def _bytes(part: str) -> bytes:
    """Decode unpadded base64url strictly."""
    try:
        return base64.b64decode(part.encode("ascii") + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidTokenError("not a signed JWT") from None
