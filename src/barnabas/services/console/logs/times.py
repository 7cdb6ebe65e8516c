"""Parses times of a search: `15m` ago, ISO 8601, epoch milliseconds, or empty."""

from __future__ import annotations

from datetime import UTC, datetime

from barnabas.common.durations import seconds_of
from barnabas.services.console.logs.query import BadQueryError

ALL = "all"
_MILLISECONDS_DIGITS = 11
"""Shorter numbers would be a time in early 1970."""


def moment_of(text: str, now: float) -> int | None:
    """Epoch milliseconds; None for `all` and for empty text. A time without a zone is UTC."""
    word = text.strip()
    if not word or word == ALL:
        return None
    if word.isdigit() and len(word) >= _MILLISECONDS_DIGITS:
        return int(word[:15])
    try:
        return int((now - seconds_of(word)) * 1000)
    except (ValueError, OverflowError):
        pass
    try:
        found = datetime.fromisoformat(word)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadQueryError(
            f"not a valid time: {word[:50]!r}; write 15m, 2h, 2026-11-17 16:00 (UTC), milliseconds since 1970, or {ALL}"
        ) from None
