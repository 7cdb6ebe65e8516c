"""Login sessions: opaque random ids in cookies, everything else in the memory of this process.

A session ends on logout, after idle time, or at its maximum age. Only the digest of an id is kept, so a memory dump
does not reveal valid ids.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

IDLE_SECONDS = 30 * 60.0
ABSOLUTE_SECONDS = 12 * 3600.0
MAX_SESSIONS = 10_000
ID_BYTES = 32

W = TypeVar("W")


@dataclass(slots=True)
class _Session(Generic[W]):
    who: W
    ends: float
    seen: float


@dataclass(slots=True)
class Sessions(Generic[W]):
    """Open sessions; `who` is the user of a session. Times are monotonic seconds."""

    idle: float = IDLE_SECONDS
    absolute: float = ABSOLUTE_SECONDS
    most: int = MAX_SESSIONS
    now: Callable[[], float] = time.monotonic
    _found: dict[bytes, _Session[W]] = field(default_factory=dict)

    def open(self, who: W, within: float | None = None) -> str:
        """Returns the new session's id, known only to the user; it expires after `within` seconds at the latest."""
        self._end_old()
        while len(self._found) >= self.most:
            del self._found[next(iter(self._found))]  # the least recently used
        session = secrets.token_urlsafe(ID_BYTES)
        now = self.now()
        ends = now + min(self.absolute, self.absolute if within is None else within)
        self._found[_digest(session)] = _Session(who, ends, now)
        return session

    def find(self, session: str) -> W | None:
        key = _digest(session)
        found = self._found.pop(key, None)
        if found is None or self._is_over(found):
            return None
        found.seen = self.now()
        self._found[key] = found  # most recently used
        return found.who

    def close(self, session: str) -> W | None:
        """Returns the session's user."""
        found = self._found.pop(_digest(session), None)
        return None if found is None else found.who

    def __len__(self) -> int:
        return len(self._found)

    def _is_over(self, session: _Session[W]) -> bool:
        return self.now() >= min(session.ends, session.seen + self.idle)

    def _end_old(self) -> None:
        for key in [key for key, session in self._found.items() if self._is_over(session)]:
            del self._found[key]


def _digest(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogateescape")).digest()


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
