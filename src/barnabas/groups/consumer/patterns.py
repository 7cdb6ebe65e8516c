"""Subscriptions by pattern (RE2) and the topics that match.

RE2 matches in time linear in the name, whatever the pattern; `barnabas.common.regex` bounds the size of a pattern.
Matching all topics may still take long, so it runs in slices of a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from barnabas.common import regex as patterns
from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.regex import PatternError

REMEMBERED_PATTERNS = 100
"""Each may take `barnabas.regex.max.bytes`, 50 MB together by default; a pattern is compiled in 0.1 ms."""

SLICE_SECONDS = 0.003
NAMES_PER_LOOK = 10
"""Names matched between two checks of the clock."""


class Resolved(NamedTuple):
    """Topics that matched a pattern, with the metadata version and the time."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


NOT_RESOLVED = Resolved(frozenset(), 0, 0)


@lru_cache(REMEMBERED_PATTERNS)
def compile_pattern(pattern: str) -> Any:  # re2 has no types
    """Compile a pattern; raises KafkaError if it is invalid or too large."""
    try:
        return patterns.compile_pattern(pattern)
    except PatternError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from None


class Resolution:
    """Matches some patterns against all topics."""

    def __init__(
        self,
        patterns: Iterable[str],
        names: list[str],
        version: int,
        clock: Clock,
        may_describe: Callable[[str], bool] = lambda topic: True,
    ) -> None:
        self._topics: dict[str, set[str]] = {pattern: set() for pattern in patterns}
        self._compiled = _usable(self._topics)
        self._names = names
        self._position = 0
        self._clock = clock
        self._may_describe = may_describe
        self._version = version
        self._started_ms = clock.now_ms()

    def run_slice(self) -> bool:
        """Match for a few milliseconds; True when all names are done."""
        deadline = self._clock.monotonic() + SLICE_SECONDS
        while self._position < len(self._names):
            for name in self._names[self._position : self._position + NAMES_PER_LOOK]:
                for pattern, compiled in self._compiled:
                    if compiled.fullmatch(name) is not None and self._may_describe(name):
                        self._topics[pattern].add(name)
            self._position += NAMES_PER_LOOK
            if self._clock.monotonic() >= deadline:
                break
        return self._position >= len(self._names)

    def results(self) -> dict[str, Resolved]:
        return {
            pattern: Resolved(frozenset(topics), self._version, self._started_ms)
            for pattern, topics in self._topics.items()
        }


def _usable(patterns: Iterable[str]) -> list[tuple[str, Any]]:
    """Patterns in the log may exceed the limits of this broker; those match no topic."""
    usable = []
    for pattern in patterns:
        try:
            usable.append((pattern, compile_pattern(pattern)))
        except KafkaError:
            continue
    return usable
