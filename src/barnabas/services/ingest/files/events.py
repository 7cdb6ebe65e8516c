"""Split the bytes of a file into lines and multiline events. Pure: bytes in, events and their end offset out.

No state between calls: the caller passes the bytes after the last complete event again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

NEWLINE = b"\n"


class Events(NamedTuple):
    values: list[bytes]
    offsets: list[int]
    """Offset in the file of the start of each event."""
    end: int
    """Offset of the next event."""


def split_lines(data: bytes, offset: int, *, final: bool) -> Events:
    """Split into complete lines. With `final`, the file no longer grows and an unterminated last line counts too."""
    last = data.rfind(NEWLINE)
    if last + 1 < len(data) and final:
        data += NEWLINE
        complete, end = data[:-1], offset + len(data) - 1
    elif last < 0:
        return Events([], [], offset)
    else:
        complete, end = data[:last], offset + last + 1
    lines = complete.split(NEWLINE)
    offsets = list(accumulate([len(line) + 1 for line in lines[:-1]], initial=offset))
    if b"\r" in complete:
        lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    return Events(lines, offsets, end)


def join_lines(lines: Events, start: Any, *, final: bool) -> Events:
    """Join lines into events: each line that matches `start` begins a new event.

    The last event is complete only when the next one begins or if `final`: no more lines are expected.
    """
    beginnings = [
        index for index, line in enumerate(lines.values) if index == 0 or start.search(line) is not None
    ]
    if not beginnings:
        return lines
    complete = beginnings if final else beginnings[:-1]
    ends = [*beginnings[1:], len(lines.values)]
    values = [NEWLINE.join(lines.values[first:last]) for first, last in zip(complete, ends, strict=False)]
    offsets = [lines.offsets[first] for first in complete]
    end = lines.end if final else lines.offsets[beginnings[-1]]
    return Events(values, offsets, end)


class Separated(NamedTuple):
    """Events within the size limit, and (offset, value) of longer ones."""

    events: Events
    too_long: list[tuple[int, bytes]]


def separate_too_long(events: Events, limit: int) -> Separated:
    if not events.values or max(map(len, events.values)) <= limit:
        return Separated(events, [])
    fitting = [index for index, value in enumerate(events.values) if len(value) <= limit]
    too_long = [
        (offset, value)
        for offset, value in zip(events.offsets, events.values, strict=True)
        if len(value) > limit
    ]
    return Separated(
        Events(_taken(events.values, fitting), _taken(events.offsets, fitting), events.end), too_long
    )


def _taken(items: Sequence[Any], indexes: Sequence[int]) -> list[Any]:
    return [items[index] for index in indexes]
