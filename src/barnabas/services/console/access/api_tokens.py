"""Tokens for programs that use the API. The console keeps digests; a token is random enough that these suffice."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from typing import NamedTuple

PREFIX = "bct_"  # so that a scanner for secrets can find it in a repository
TOKEN_BYTES = 32
LONGEST = 256


class ApiToken(NamedTuple):
    """`expires` in epoch seconds; None: never."""

    name: str
    digest: str
    expires: float | None = None


def new_token() -> tuple[str, str]:
    """A token and its digest."""
    token = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    return token, digest_of(token)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def is_digest(text: str) -> bool:
    return len(text) == 64 and all(each in "0123456789abcdef" for each in text)


class ApiTokens:
    def __init__(self, tokens: Iterable[ApiToken], now: Callable[[], float]) -> None:
        self._tokens = list(tokens)
        self._now = now

    def find(self, token: str) -> ApiToken | None:
        """Whose token this is, unless it has expired. All are compared, whichever fits."""
        if not token or len(token) > LONGEST:
            return None
        wanted = digest_of(token)
        found = [each for each in self._tokens if hmac.compare_digest(each.digest, wanted)]
        if not found or (found[0].expires is not None and self._now() >= found[0].expires):
            return None
        return found[0]
