"""Login sessions on disk, so that a restart of the console does not end them.

The file contains digests of session ids. The user of a session, which may include a Kafka password, is encrypted with a
key derived from the id, which only the browser has: the file alone opens no session and reveals no password.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.services.console.history.store import make_private

FILE = "sessions.sqlite"
NONCE_BYTES = 12
"""Of AES-GCM; random, as each key encrypts one text."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS sessions (digest BLOB PRIMARY KEY, ends REAL, seen REAL, sealed BLOB)"

log = rate_limited_logger(__name__)


class StoredSession(NamedTuple):
    """Times are epoch seconds."""

    digest: bytes
    ends: float
    seen: float
    sealed: bytes


def digest_of(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogateescape")).digest()


def seal(session: str, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(_key(session)).encrypt(nonce, data, digest_of(session))


def unseal(session: str, sealed: bytes) -> bytes | None:
    """None if the text was not sealed for this session."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        nonce, text = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        return AESGCM(_key(session)).decrypt(nonce, text, digest_of(session))
    except (InvalidTag, ValueError):
        return None


def _key(session: str) -> bytes:
    return hashlib.sha256(b"barnabas console session\0" + session.encode("utf-8", "surrogateescape")).digest()


class SessionStore:
    """If the file cannot be used, sessions are kept in memory only, and a warning is logged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: sqlite3.Connection | None = None

    def open(self, now: float, limit: int) -> list[StoredSession]:
        """Return the sessions that have not ended, the least recently used first."""
        try:
            return self._open(now, limit)
        except sqlite3.DatabaseError as error:
            log.warning("%s is damaged (%s): all sessions end", self._path, error)
            self.close()
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("sessions end with this console, because %s cannot be used: %s", self._path, error)
            return []
        try:
            return self._open(now, limit)
        except (OSError, sqlite3.Error) as error:
            log.warning("sessions end with this console, because %s cannot be used: %s", self._path, error)
            self.close()
            return []

    def _open(self, now: float, limit: int) -> list[StoredSession]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        make_private(self._path)
        self._file = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=NORMAL")
        self._file.execute(_SCHEMA)
        self._file.execute("DELETE FROM sessions WHERE ends <= ?", (now,))
        return sorted(self._rows(limit), key=lambda stored: stored.seen)

    def _rows(self, limit: int) -> Iterator[StoredSession]:
        assert self._file is not None
        newest = "SELECT digest, ends, seen, sealed FROM sessions ORDER BY seen DESC LIMIT ?"
        with closing(self._file.execute(newest, (limit,))) as cursor:
            yield from map(StoredSession._make, cursor)

    def put(self, stored: StoredSession) -> None:
        self._run("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)", stored)

    def touch(self, digest: bytes, seen: float) -> None:
        self._run("UPDATE sessions SET seen = ? WHERE digest = ?", (seen, digest))

    def remove(self, digest: bytes) -> None:
        self._run("DELETE FROM sessions WHERE digest = ?", (digest,))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _run(self, statement: str, values: tuple[object, ...]) -> None:
        """Write one row: a tenth of a millisecond, once per login, logout and minute of a session."""
        if self._file is None:
            return
        try:
            self._file.execute(statement, values)
        except sqlite3.Error as error:
            log.warning("a session is not stored in %s, and ends with this console: %s", self._path, error)
