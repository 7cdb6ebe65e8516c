"""The file of the audit log: lines of JSON that only the owner may read, in files of bounded length."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from barnabas.security.authz.audit import Event

OWNER_ONLY = 0o600


def lines_of(events: Iterable[Event]) -> bytes:
    return b"".join(json.dumps(event, ensure_ascii=True).encode() + b"\n" for event in events)


class AuditFile:
    """Written by one thread at a time. It is opened for each write: it may be moved away at any time."""

    def __init__(self, path: Path, max_bytes: int, count: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._count = count

    def write(self, lines: bytes) -> None:
        """OSError when it cannot be written."""
        if self._length() + len(lines) > self._max_bytes and self._length():
            self._rotate()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
        try:
            os.fchmod(descriptor, OWNER_ONLY)
            view = memoryview(lines if _ends_a_line(descriptor) else b"\n" + lines)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)

    def _length(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _rotate(self) -> None:
        """FILE becomes FILE.1, that FILE.2, and so on; the oldest goes."""
        self._numbered(self._count).unlink(missing_ok=True)
        for number in range(self._count - 1, 0, -1):
            if self._numbered(number).exists():
                self._numbered(number).rename(self._numbered(number + 1))
        if self._count:
            self._path.rename(self._numbered(1))
        else:
            self._path.unlink()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _ends_a_line(descriptor: int) -> bool:
    """Not if a full disk or a crash has cut off the last line: the next one must not become a part of it."""
    length = os.fstat(descriptor).st_size
    return not length or os.pread(descriptor, 1, length - 1) == b"\n"
