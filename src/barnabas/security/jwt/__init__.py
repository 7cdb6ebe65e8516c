"""JSON Web Tokens: verification, and the key sets of identity providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.jwt.jwk import PublicKey
    from barnabas.security.jwt.jwks import URL, KeySource, key_source
    from barnabas.security.jwt.verification import InvalidTokenError, JwtRules, VerifiedToken, check_token
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "jwk": "PublicKey",
            "jwks": "KeySource URL key_source",
            "verification": "InvalidTokenError JwtRules VerifiedToken check_token",
        },
    )

__all__ = [
    "URL",
    "InvalidTokenError",
    "JwtRules",
    "KeySource",
    "PublicKey",
    "VerifiedToken",
    "check_token",
    "key_source",
]
