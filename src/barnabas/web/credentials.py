"""Credentials for reading metrics over HTTP: users with passwords (Basic) and bearer tokens, each from a file.

The files are reloaded when they change. A missing or empty file rejects every request: an absent credential never
matches (CVE-2025-61673). Comparisons take constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError

log = rate_limited_logger(__name__)

MAX_FILE = 1 << 20
TOKENS = "barnabas.metrics.tokens.file"


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


class CredentialFile:
    """Digests of the lines of a file; lines that begin with `#` are comments."""

    def __init__(self, path: str, setting: str) -> None:
        self._path = path
        self._setting = setting
        self._version: tuple[int, ...] = ()
        self._digests: list[bytes] = []
        self._read()

    def accepts(self, secret: bytes) -> bool:
        try:
            self._read()
        except ConfigError as error:
            log.error("%s: all requests are rejected until the file can be read", error)
            self._version, self._digests = (), []
        digest = _digest(secret)
        # Compare all of them: the time must not reveal which one matched.
        return sum([hmac.compare_digest(digest, each) for each in self._digests]) > 0

    def _read(self) -> None:
        try:
            status = os.stat(self._path)
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if version == self._version:
                return
            with open(self._path, "rb") as file:
                lines = file.read(MAX_FILE).splitlines()
        except OSError as error:
            raise ConfigError(f"{self._setting}={self._path} cannot be read: {error.strerror}") from None
        secrets = [line for each in lines if (line := each.strip()) and not line.startswith(b"#")]
        if not secrets:
            raise ConfigError(f"{self._setting}={self._path} is empty: write one credential per line")
        self._version, self._digests = version, [_digest(secret) for secret in secrets]


class HttpCredentials:
    """Authenticates requests by their Authorization header; without files, all requests are accepted."""

    def __init__(self, users_file: str = "", tokens_file: str = "", tokens_setting: str = TOKENS) -> None:
        self._by_scheme: dict[str, CredentialFile] = {}
        if users_file:
            # Lines NAME:PASSWORD, as Basic sends them.
            self._by_scheme["basic"] = CredentialFile(users_file, "barnabas.metrics.users.file")
        if tokens_file:
            self._by_scheme["bearer"] = CredentialFile(tokens_file, tokens_setting)

    def __bool__(self) -> bool:
        return bool(self._by_scheme)

    @property
    def challenge(self) -> str:
        """Value of WWW-Authenticate."""
        names = {"basic": 'Basic realm="metrics"', "bearer": "Bearer"}
        return ", ".join(names[scheme] for scheme in self._by_scheme)

    def accept(self, head: bytes) -> bool:
        if not self._by_scheme:
            return True
        headers = list(_authorizations(head))
        if len(headers) != 1:
            return False
        scheme, _, value = headers[0].partition(b" ")
        name = scheme.decode("latin-1").lower()
        file = self._by_scheme.get(name)
        secret = _decoded(value.strip()) if name == "basic" else value.strip()
        return file is not None and bool(secret) and file.accepts(secret)


def credentials_from(config: BrokerConfig) -> HttpCredentials:
    """Raise ConfigError if a file cannot be read or is empty."""
    return HttpCredentials(config["barnabas.metrics.users.file"], config["barnabas.metrics.tokens.file"])


def _authorizations(head: bytes) -> Iterable[bytes]:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"authorization":
            yield value.strip()


def _decoded(value: bytes) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (Base64Error, ValueError):
        return b""
