"""Passwords of the console's own users, stored as scrypt hashes: `scrypt$15$8$1$SALT$HASH` (RFC 7914).

Checking a hash takes 32 MiB and a tenth of a second. Concurrency is limited, so that a flood of logins exhausts neither
memory nor CPU. An unknown name takes as long as a wrong password.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

# -- API tokens. The console stores digests; SHA-256 suffices, as tokens are long and random -----------

PREFIX = "bct_"  # lets secret scanners find tokens in repositories
TOKEN_BYTES = 32
MAX = 256


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
        """The token's entry, unless it has expired. All digests are compared, for constant time."""
        if not token or len(token) > MAX:
            return None
        wanted = digest_of(token)
        found = [each for each in self._tokens if hmac.compare_digest(each.digest, wanted)]
        if not found or (found[0].expires is not None and self._now() >= found[0].expires):
            return None
        return found[0]


KIND = "scrypt"
LOG_N, BLOCK, PARALLEL = 15, 8, 1  # OWASP's recommendation for 32 MiB
MIN_LOG_N, MAX_LOG_N = 14, 18
SALT_BYTES, HASH_BYTES = 16, 32
AT_A_TIME = 2
MAX_PASSWORD = 1024


class PasswordHashError(ValueError):
    """Not a valid password hash; the message says how to create one."""

    def __init__(self) -> None:
        super().__init__("a password is written as its hash: make one with `barnabas console password`")


class PasswordHash(NamedTuple):
    log_n: int
    block: int
    parallel: int
    salt: bytes
    hash: bytes

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        parts = text.split("$")
        try:
            kind, log_n, block, parallel, salt, digest = parts
            found = cls(int(log_n), int(block), int(parallel), _decoded(salt), _decoded(digest))
        except (ValueError, binascii.Error):
            raise PasswordHashError from None
        is_bounded = MIN_LOG_N <= found.log_n <= MAX_LOG_N and (found.block, found.parallel) == (8, 1)
        if kind != KIND or not is_bounded or len(found.hash) != HASH_BYTES or len(found.salt) < SALT_BYTES:
            raise PasswordHashError
        return found

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(each).decode() for each in (self.salt, self.hash))
        return f"{KIND}${self.log_n}${self.block}${self.parallel}${salt}${digest}"

    def matches(self, password: str) -> bool:
        """Blocks for a tenth of a second: call in a thread."""
        return hmac.compare_digest(_scrypt(password, self.salt, self.log_n), self.hash)


def hash_of(password: str, log_n: int = LOG_N) -> PasswordHash:
    salt = secrets.token_bytes(SALT_BYTES)
    return PasswordHash(log_n, BLOCK, PARALLEL, salt, _scrypt(password, salt, log_n))


class Passwords:
    def __init__(self, hashes: Mapping[str, PasswordHash]) -> None:
        self._hashes = hashes
        limit = max((each.log_n for each in hashes.values()), default=LOG_N)
        self._nobody = PasswordHash(limit, BLOCK, PARALLEL, b"\0" * SALT_BYTES, b"\0" * HASH_BYTES)
        self._turns = asyncio.Semaphore(AT_A_TIME)

    async def accept(self, name: str, password: str) -> bool:
        if not name or not password or len(password) > MAX_PASSWORD:
            return False
        known = self._hashes.get(name, self._nobody)
        async with self._turns:
            is_right = await asyncio.to_thread(known.matches, password)
        return is_right and name in self._hashes


def _scrypt(password: str, salt: bytes, log_n: int) -> bytes:
    memory = 2 * 128 * BLOCK * (1 << log_n)  # OpenSSL needs slightly more than scrypt's buffers
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=1 << log_n,
        r=BLOCK,
        p=PARALLEL,
        maxmem=memory,
        dklen=HASH_BYTES,
    )


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
