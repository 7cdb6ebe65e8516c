"""JSON Web Tokens: verification, and the key sets of identity providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.jwt.jwks import URL as URL
    from barnabas.security.jwt.jwks import KeySource as KeySource
    from barnabas.security.jwt.jwks import PublicKey as PublicKey
    from barnabas.security.jwt.jwks import key_source as key_source
    from barnabas.security.jwt.verification import InvalidTokenError as InvalidTokenError
    from barnabas.security.jwt.verification import JwtRules as JwtRules
    from barnabas.security.jwt.verification import VerifiedToken as VerifiedToken
    from barnabas.security.jwt.verification import check_token as check_token
else:
    __getattr__ = lazy_exports(__name__)
