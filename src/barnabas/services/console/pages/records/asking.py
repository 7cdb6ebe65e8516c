"""Converts the fields of the search bar, as in the URL, to a search."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from barnabas.client.schemas.client import topic_of
from barnabas.common.durations import seconds_of
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.scanning.model import MAX_HITS, Decode, RecordMask, Search
from barnabas.web import AnonymousUser

_OFFSET = re.compile(r"\s*(?:offset|@)\s*(\d{1,18})\s*", re.IGNORECASE | re.ASCII)
_PARTITIONS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_MILLISECONDS = re.compile(r"\d{11,15}")
MAX_PARTITIONS = 10_000

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_HITS)]


class Asked(msgspec.Struct, kw_only=True):
    """Fields of the search bar; the URL contains all of them."""

    topic: str
    find: str = ""
    regex: bool = False
    ignore_case: bool = False
    key: str = ""
    header: str = ""
    where: str = ""
    since: str = ""
    """Timestamp (2026-11-17T08:30, UTC by default), time before now (15m), or @OFFSET."""
    until: str = ""
    partitions: str = ""
    """0,2,5-7"""
    order: Literal["newest", "oldest"] = "newest"
    uncommitted: bool = False
    decode: Decode = Decode.AUTO


async def search_of(context: RequestScope, requested: Asked, limit: int, continue_at: str = "") -> Search:
    since, first_offset = _moment_or_offset(requested.since, "since")
    until, until_offset = _moment_or_offset(requested.until, "until")
    return Search(
        topic=requested.topic,
        find=requested.find,
        regex=requested.regex and bool(requested.find),
        ignore_case=requested.ignore_case,
        key=requested.key,
        header=requested.header,
        where=requested.where.strip(),
        since=since,
        until=until,
        first_offset=first_offset,
        until_offset=until_offset,
        partitions=parse_partitions(requested.partitions),
        newest_first=requested.order == "newest",
        committed=not requested.uncommitted,
        limit=limit,
        decode=requested.decode,
        masks=await masks_of(context, requested.topic),
        subjects=await readable_subjects(context),
        continue_at=continue_at,
        user=searcher(context),
    )


def searcher(context: RequestScope) -> str:
    """Name of the user for a fair share of searches; without a login, the address."""
    if isinstance(context.user, AnonymousUser) and context.head is not None:
        return context.head.host
    return context.user.name


async def masks_of(context: RequestScope, topic: str) -> tuple[RecordMask, ...]:
    """Masks that apply to this user."""
    hidden = await context.hidden(topic)
    return (RecordMask(hidden.fields, hidden.headers, hidden.key),) if hidden else ()


async def readable_subjects(context: RequestScope) -> frozenset[str] | None:
    """Subjects whose topics the user may read; None: all, without a login or if the registry decides."""
    decides = context.cluster.registry.by_user and context.user.security() is not None
    if decides or isinstance(context.user, AnonymousUser):
        return None
    subjects = await context.cluster.subjects.names()
    topics = {subject: topic_of(subject) for subject in subjects}
    allowed = await context.allowed(Operation.READ, ResourceType.TOPIC, set(topics.values()))
    return frozenset(subject for subject, topic in topics.items() if topic in allowed)


def parse_partitions(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in filter(None, (each.strip() for each in text.split(","))):
        named = _PARTITIONS.fullmatch(part)
        if named is None:
            raise BadInputError(f"not a valid partition: {part[:50]!r} (examples: 0,2 or 0-3)", "partitions")
        start, end = int(named[1]), int(named[2] or named[1])
        if len(found) + end - start >= MAX_PARTITIONS:
            raise BadInputError(
                f"too many partitions: more than {MAX_PARTITIONS} up to {part!r}", "partitions"
            )
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
    """Epoch milliseconds, not before 1970: negative timestamps have special meanings in ListOffsets."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        timestamp = datetime.fromisoformat(text)
        at = (timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)).timestamp()
        return int(max(0.0, at) * 1000)
    except (ValueError, OverflowError):
        pass
    try:
        ago = seconds_of(text.removeprefix("-").removesuffix("ago").strip())
    except ValueError:
        raise BadInputError(
            f"not a valid time: {text[:50]!r} (examples: 2026-11-17T08:30, 15m for 15 minutes ago, @4711 as offset)",
            field,
        ) from None
    return int(max(0.0, datetime.now(UTC).timestamp() - ago) * 1000)
