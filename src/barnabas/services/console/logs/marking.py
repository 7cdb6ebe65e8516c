"""Positions of the search terms in a message."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.regex import compile_for_long_texts
from barnabas.services.console.logs.query import Term

MAX_MARKS = 100

Mark = tuple[int, int]
"""Start and end."""


def marks_of(message: str, terms: Iterable[Term]) -> list[Mark]:
    """Sorted, non-overlapping spans."""
    found: list[Mark] = []
    for start, end in sorted(span for term in terms if term.wanted for span in _spans(message, term)):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found[:MAX_MARKS]


def _spans(message: str, term: Term) -> list[Mark]:
    found: list[Mark] = []
    for match in compile_for_long_texts(f"(?i:{term.pattern})").finditer(message):
        if match.end() > match.start():
            found.append(match.span())
        if len(found) >= MAX_MARKS:
            break
    return found
