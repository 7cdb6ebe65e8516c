"""Login sessions: opaque random ids in cookies; the users in memory, and sealed in a `SessionStore`.

A session ends on logout, after idle time, or at its maximum age, and survives a restart of the console. Only the digest
of an id is kept, so neither a memory dump nor the file reveals valid ids.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from barnabas.services.console.access.session_store import (
    SessionStore,
    StoredSession,
    digest_of,
    seal,
    unseal,
)

IDLE_SECONDS = 30 * 60.0
ABSOLUTE_SECONDS = 12 * 3600.0
MAX_SESSIONS = 10_000
ID_BYTES = 32
STORED_SECONDS = 60.0
"""The time of the last request is stored once in so many seconds."""

W = TypeVar("W")


class SessionCodec(Protocol[W]):
    """Writes users of sessions for the store; `read` returns None for one that this console cannot continue."""

    def write(self, identity: W) -> bytes: ...

    def read(self, data: bytes) -> W | None: ...


@dataclass(slots=True)
class _Session(Generic[W]):
    who: W | None
    """None after a restart, until the browser sends the id that opens `sealed`."""
    ends: float
    seen: float
    stored: float
    sealed: bytes = b""


@dataclass(slots=True)
class Sessions(Generic[W]):
    """Open sessions; `who` is the user of a session. Times are epoch seconds, to survive a restart."""

    idle: float = IDLE_SECONDS
    absolute: float = ABSOLUTE_SECONDS
    most: int = MAX_SESSIONS
    now: Callable[[], float] = time.time
    store: SessionStore | None = None
    codec: SessionCodec[W] | None = None
    _found: dict[bytes, _Session[W]] = field(default_factory=dict)
    _is_loaded: bool = False

    def _load(self) -> None:
        """Continue the sessions of the store, at the first request."""
        if self.store is not None and not self._is_loaded:
            self._is_loaded = True
            for digest, ends, seen, sealed in self.store.open(self.now(), self.most):
                self._found[digest] = _Session(None, ends, seen, seen, sealed)
            self._end_old()

    def open(self, identity: W, within: float | None = None) -> str:
        """Returns the new session's id, known only to the user; it expires after `within` seconds at the latest."""
        self._load()
        self._end_old()
        while len(self._found) >= self.most:
            self._remove(next(iter(self._found)))  # the least recently used
        session, now = secrets.token_urlsafe(ID_BYTES), self.now()
        ends = now + min(self.absolute, self.absolute if within is None else within)
        digest = digest_of(session)
        self._found[digest] = _Session(identity, ends, now, now)
        if self.store is not None and self.codec is not None:
            self.store.put(StoredSession(digest, ends, now, seal(session, self.codec.write(identity))))
        return session

    def find(self, session: str) -> W | None:
        self._load()
        key = digest_of(session)
        found = self._found.get(key)
        if found is None or self._is_over(found) or (identity := self._user(found, session)) is None:
            self._remove(key)
            return None
        found.seen = self.now()
        self._found[key] = self._found.pop(key)  # most recently used
        if self.store is not None and found.seen - found.stored >= STORED_SECONDS:
            found.stored = found.seen
            self.store.touch(key, found.seen)
        return identity

    def close(self, session: str) -> W | None:
        """Returns the session's user."""
        self._load()
        key = digest_of(session)
        found = self._found.get(key)
        identity = None if found is None else self._user(found, session)
        self._remove(key)
        return identity

    def end(self) -> None:
        """Close the store; sessions continue with the next console."""
        if self.store is not None:
            for key, found in self._found.items():
                if found.seen > found.stored:
                    self.store.touch(key, found.seen)
            self.store.close()

    def __len__(self) -> int:
        return len(self._found)

    def _user(self, found: _Session[W], session: str) -> W | None:
        if found.who is None and self.codec is not None:
            data = unseal(session, found.sealed)
            found.who, found.sealed = None if data is None else self.codec.read(data), b""
        return found.who

    def _is_over(self, session: _Session[W]) -> bool:
        return self.now() >= min(session.ends, session.seen + self.idle)

    def _end_old(self) -> None:
        for key in [key for key, session in self._found.items() if self._is_over(session)]:
            self._remove(key)

    def _remove(self, key: bytes) -> None:
        if self._found.pop(key, None) is not None and self.store is not None:
            self.store.remove(key)


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie. The prefix `__Host-` binds it to this host and to HTTPS; browsers reject it otherwise."""

    name: str
    is_secure: bool

    @property
    def full_name(self) -> str:
        return f"__Host-{self.name}" if self.is_secure else self.name

    def value(self, headers: Mapping[str, str]) -> str:
        """Value in the request, or an empty string. Cookies of other servers on this host may hold anything."""
        for each in headers.get("cookie", "").split(";"):
            name, _, value = each.strip().partition("=")
            if name == self.full_name:
                return value
        return ""

    def setting(self, value: str, seconds: int | None = None) -> tuple[str, str]:
        """The Set-Cookie header, for the browser session or `seconds`; 0 deletes the cookie."""
        secure = "; Secure" if self.is_secure else ""
        age = "" if seconds is None else f"; Max-Age={seconds}"
        return "set-cookie", f"{self.full_name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{age}"
