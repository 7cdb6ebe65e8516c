"""Parses a response of a JSON endpoint to rows and the next cursor. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from barnabas.spark import PipelineError

Cursor = str | None


class ResponsePage(NamedTuple):
    rows: Sequence[bytes]
    """Rows, each encoded as JSON."""
    cursor: Cursor
    """Cursor of the next request."""


@dataclass(frozen=True)
class PageLayout:
    """Paths of the rows and the cursor, such as `data.items`; empty for the whole response. The cursor is the value at
    `next`, or the `field` of the last row."""

    rows: str
    next: str | None
    field: str | None


_encode = msgspec.json.Encoder().encode


def page_of(body: bytes, layout: PageLayout, cursor: Cursor) -> ResponsePage:
    """Parse a response; PipelineError if it has no rows or no new cursor."""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise PipelineError(f"The response is not valid JSON: {body[:200]!r}.", error) from None
    rows = at_path(answer, layout.rows)
    if not isinstance(rows, list):
        where = f"at `{layout.rows}` of the response" if layout.rows else "in the response"
        raise PipelineError(f"No list of rows {where}: check `rows` of the source.")
    if layout.field is not None:
        return _by_field(rows, layout.field, cursor)
    following = _text(at_path(answer, layout.next or ""))
    if following is None:
        following = cursor
    if rows and following == cursor:
        raise PipelineError(
            f"A response with {len(rows)} rows has no new cursor at `{layout.next}`: the same rows would be reread. "
            "Every response must contain the next cursor, or `field` must name an increasing field of the rows."
        )
    return ResponsePage([_encode(row) for row in rows], following)


def _by_field(rows: list[Any], field: str, cursor: Cursor) -> ResponsePage:
    """Take the cursor from the last row; skip the row of the old cursor, which some endpoints repeat."""
    cursors = [_text(at_path(row, field)) for row in rows]
    if None in cursors:
        raise PipelineError(
            f"A row has no `{field}`, which is the cursor: {_encode(rows[cursors.index(None)])[:200]!r}."
        )
    new = [row for row, own in zip(rows, cursors, strict=True) if own != cursor]
    return ResponsePage([_encode(row) for row in new], cursors[-1] if new else cursor)


def at_path(value: Any, path: str) -> Any:
    """Return the value at the path, or None."""
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> Cursor:
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else _encode(value).decode()
