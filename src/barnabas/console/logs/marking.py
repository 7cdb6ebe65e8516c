"""Where in a message the words are that were looked for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from barnabas.console.logs.query import Term
from barnabas.patterns import compile_for_long_texts

MOST_MARKS = 100


class Piece(msgspec.Struct):
    text: str
    marked: bool = False


def marked(message: str, terms: Iterable[Term]) -> list[Piece]:
    """The message in pieces; put together they are what it was."""
    spans = sorted(span for term in terms if term.wanted for span in _spans(message, term))
    pieces, place = [], 0
    for start, end in spans[:MOST_MARKS]:
        if end <= place:
            continue
        if start > place:
            pieces.append(Piece(message[place:start]))
        pieces.append(Piece(message[max(start, place) : end], True))
        place = end
    if place < len(message):
        pieces.append(Piece(message[place:]))
    return pieces


def _spans(message: str, term: Term) -> list[tuple[int, int]]:
    found = []
    for match in compile_for_long_texts(f"(?i:{term.pattern})").finditer(message):
        if match.end() > match.start():
            found.append(match.span())
        if len(found) >= MOST_MARKS:
            break
    return found
