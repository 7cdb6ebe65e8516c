"""What people write into the search bar, and the address that says it, as a search."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from barnabas.console.context import Context
from barnabas.console.errors import BadInputError
from barnabas.console.scanning.model import MOST_HITS, Decode, Mask, Search
from barnabas.durations import seconds_of

_OFFSET = re.compile(r"\s*(?:offset|@)\s*(\d+)\s*", re.IGNORECASE)
_MILLISECONDS = re.compile(r"\d{11,15}")
MOST_PARTITIONS = 10_000

Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_HITS)]


class Asked(msgspec.Struct, kw_only=True):
    """The search bar; all of it is in the address."""

    topic: str
    find: str = ""
    regex: bool = False
    ignore_case: bool = False
    key: str = ""
    header: str = ""
    where: str = ""
    since: str = ""
    """A time (2026-11-17T08:30, UTC unless it says otherwise), a length of time before now (15m), or @OFFSET."""
    until: str = ""
    partitions: str = ""
    """0,2,5-7"""
    order: Literal["newest", "oldest"] = "newest"
    uncommitted: bool = False
    decode: Decode = Decode.AUTO


async def search_of(context: Context, asked: Asked, limit: int, continue_at: str = "") -> Search:
    since, first_offset = _moment_or_offset(asked.since, "since")
    until, until_offset = _moment_or_offset(asked.until, "until")
    return Search(
        topic=asked.topic,
        find=asked.find,
        regex=asked.regex and bool(asked.find),
        ignore_case=asked.ignore_case,
        key=asked.key,
        header=asked.header,
        where=asked.where.strip(),
        since=since,
        until=until,
        first_offset=first_offset,
        until_offset=until_offset,
        partitions=parse_partitions(asked.partitions),
        newest_first=asked.order == "newest",
        committed=not asked.uncommitted,
        limit=limit,
        decode=asked.decode,
        masks=await masks_of(context, asked.topic),
        continue_at=continue_at,
    )


async def masks_of(context: Context, topic: str) -> tuple[Mask, ...]:
    """What is hidden from this visitor."""
    hidden = await context.hidden(topic)
    return (Mask(hidden.fields, hidden.headers, hidden.key),) if hidden else ()


def parse_partitions(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in filter(None, (each.strip() for each in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise BadInputError(f"{part!r} is no partition: write 0,2 or 0-3", "partitions")
        start, end = int(first), int(last or first)
        if end - start >= MOST_PARTITIONS:
            raise BadInputError(f"{part!r} are too many partitions", "partitions")
        found.update(range(start, end + 1))
    return tuple(sorted(found))


def _moment_or_offset(text: str, field: str) -> tuple[int | None, int | None]:
    text = text.strip()
    if not text:
        return None, None
    if found := _OFFSET.fullmatch(text):
        return None, int(found[1])
    return parse_moment(text, field), None


def parse_moment(text: str, field: str) -> int:
    """Epoch milliseconds."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except ValueError:
        pass
    try:
        ago = seconds_of(text.removeprefix("-").removesuffix("ago").strip())
    except ValueError:
        raise BadInputError(
            f"{text!r} is no time: write 2026-11-17T08:30, 15m for a quarter of an hour ago, or @4711 for an offset",
            field,
        ) from None
    return int((datetime.now(UTC).timestamp() - ago) * 1000)
