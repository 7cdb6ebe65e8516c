"""Byte strings that a value must contain to match, taken from the literals of a filter: most records are never decoded.

JSON may escape any character, so a value with a backslash is always decoded.
"""

from __future__ import annotations

from barnabas.filters.binding import Root, RootField
from barnabas.filters.syntax import Call, Literal, Logic, Select, SyntaxNode

Needles = tuple[bytes, ...]
"""Alternatives: at least one must occur."""

_ONE = ("==", "contains", "startsWith", "endsWith")


def needles_of(node: SyntaxNode) -> Needles | None:
    """None if the filter implies no such bytes."""
    match node:
        case Logic(operator="&&", parts=parts):
            known = [found for part in parts if (found := needles_of(part)) is not None]
            return max(known, key=_strength, default=None)
        case Logic(parts=parts):
            each = [needles_of(part) for part in parts]
            if any(found is None for found in each):
                return None
            return tuple(dict.fromkeys(needle for found in each for needle in found or ()))
        case Call(function="in", arguments=(path, Literal(value=list(items)))) if _of_value(path):
            return _of_texts(items)
        case Call(function="==", arguments=(Literal(value=text), path)) if _of_value(path):
            return _of_texts([text])
        case Call(function=name, arguments=(path, Literal(value=text))) if name in _ONE and _of_value(path):
            return _of_texts([text])
    return None


def may_match(value: bytes | None, needles: Needles) -> bool:
    if value is None:
        return False
    for needle in needles:  # a generator would cost more than the search
        if needle in value:
            return True
    return b"\\" in value


def _of_value(node: SyntaxNode) -> bool:
    while isinstance(node, Select):
        node = node.base
    match node:
        case RootField(root="value") | Root(name="value" | "valueAsText"):
            return True
    return False


def _of_texts(texts: list[object]) -> Needles | None:
    found = tuple(_bytes(text) for text in texts if isinstance(text, str))
    return found if texts and len(found) == len(texts) and all(found) else None


def _bytes(text: str) -> bytes:
    """Empty if the text holds U+FFFD, which replaces bytes that are not UTF-8."""
    return b"" if "\ufffd" in text else text.encode("utf-8", "replace")


def _strength(needles: Needles) -> int:
    return min(map(len, needles))
