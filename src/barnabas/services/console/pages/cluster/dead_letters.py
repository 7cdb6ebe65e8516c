"""Dead letters: topics, reasons, and redrive after a dry run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from barnabas.client import ClientError, admin
from barnabas.client.offsets import beginning_offsets, end_offsets
from barnabas.client.share import (
    DIALECTS,
    GROUP_PREFIX,
    DeadLetter,
    DeadLetterFilter,
    Sendable,
    pending_letters,
    read_letters,
    redrive,
)
from barnabas.common.errors import KafkaError
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.rights import may_change
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, RefusedError, StaleError
from barnabas.services.console.needs import SHOWN, topic
from barnabas.services.console.pages.list_parts import Freshness, freshness
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import NavigationEntry, Routes

# -- Dead-letter topics, and their records grouped by reason -------------------------------------------

PREFIX = "errors.deadletterqueue.topic.name.prefix"
_NAMED_SO = re.compile(r"(^|[._-])(dlq|dlt|dead[._-]?letters?)($|[._-])", re.IGNORECASE)


class Reason(msgspec.Struct):
    """Dead letters with the same reason and origin."""

    kind: str
    """Component that rejected them: queue, pipeline, connect or ingest; other if the headers do not say."""
    reason: str
    origin: str
    """Source topic; empty if unknown."""
    by: str
    """The share group, dataset, connector or file."""
    count: int
    first_ms: int
    last_ms: int


class LetterRow(msgspec.Struct):
    """Dead letter without the record's content, which the record page shows with masks applied."""

    partition: int
    offset: int
    timestamp: int
    kind: str
    origin: str
    origin_partition: int
    origin_offset: int
    by: str
    deliveries: int | None
    reason: str


def is_named_so(topic: str) -> bool:
    """True if the topic's name is that of a dead-letter topic."""
    return _NAMED_SO.search(topic) is not None


def reasons_of(letters: Iterable[DeadLetter]) -> list[Reason]:
    """Group dead letters by reason, most frequent first."""
    found: dict[tuple[str, str, str, str], Reason] = {}
    for letter in letters:
        key = (letter.kind, letter.reason, letter.origin.topic, letter.group)
        reason = found.setdefault(key, Reason(*key, 0, letter.timestamp, letter.timestamp))
        reason.count += 1
        reason.first_ms = min(reason.first_ms, letter.timestamp)
        reason.last_ms = max(reason.last_ms, letter.timestamp)
    return sorted(found.values(), key=lambda each: (-each.count, each.reason))


def row_of(letter: DeadLetter) -> LetterRow:
    return LetterRow(
        letter.tp.partition,
        letter.offset,
        letter.timestamp,
        letter.kind,
        letter.origin.topic,
        letter.origin.partition,
        letter.origin_offset,
        letter.group,
        letter.deliveries if letter.deliveries >= 0 else None,
        letter.reason,
    )


def filter_of(where: Iterable[str], *, masked: bool) -> DeadLetterFilter:
    """Rejects `key` if anything is masked: a filter must not reveal masked data."""
    texts = [text for text in where if text.strip()]
    if masked and any(text.partition("=")[0] == "key" for text in texts):
        raise BadInputError("Keys may be masked for you: filter by something else", "where")
    try:
        return DeadLetterFilter(texts)
    except ValueError as error:
        raise BadInputError(str(error), "where") from None


routes = Routes()

MAX_READ = 20_000
"""Records of a dead-letter topic read for one page."""
MAX_BYTES = 64 << 20
"""Bytes of letters held in memory by a page or a redrive."""
MAX_ROWS = 100


class DeadQuery(msgspec.Struct):
    pass


class LettersQuery(msgspec.Struct):
    topic: str
    where: list[str] = []
    """Conditions such as reason=*rejected* or group=billing; all must match."""
    to: str = ""
    """Target topic of the redrive; empty: the topic of origin."""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    all: bool = False
    """Include letters that were already redriven."""
    preview: bool = False
    """Show the effect of a redrive."""


class RedriveForm(msgspec.Struct):
    topic: str
    where: list[str] = []
    to: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    seen: int | None = None
    """Number of letters in the dry run; nothing is sent if it has changed."""


class DeadTopic(msgspec.Struct):
    topic: str
    records: int
    partitions: int


class DeadPage(msgspec.Struct):
    figures: Freshness
    topics: list[DeadTopic]


class LettersPage(msgspec.Struct):
    topic: str
    reasons: list[Reason]
    rows: list[LetterRow]
    count: int
    is_complete: bool
    """False if only the first records were read, up to MAX_READ or MAX_BYTES."""
    targets: dict[str, int]
    """Number of letters by target topic of a redrive."""
    left_out: int
    """Letters of another kind that a redrive without a target topic does not send; counted in a preview."""
    may_redrive: bool


class RedriveReport(msgspec.Struct):
    message: str
    see: str
    sent: int
    lost: list[str]
    """Letters without a copy whose original no longer exists: partition:offset."""


@routes.page(
    "/dead",
    needs=SHOWN,
    template="cluster/dead.html",
    entry=NavigationEntry("Dead letters", "d", 40, "dead", "Processing"),
)
async def show_dead(context: RequestScope, query: DeadQuery) -> DeadPage:
    """Dead-letter topics, recognized by name, with their record counts."""
    snapshot = context.cluster.sampler.snapshot
    prefix = await _prefix(context)
    names = [name for name in snapshot.topics if is_named_so(name) or (prefix and name.startswith(prefix))]
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
    found = [snapshot.topics[name] for name in names if name in allowed]
    rows = [DeadTopic(topic.name, topic.records, len(topic.layout)) for topic in found]
    return DeadPage(freshness(snapshot), rows)


@routes.page("/dead/{topic}", needs=topic(Operation.READ), template="cluster/letters.html")
async def show_letters(context: RequestScope, query: LettersQuery) -> LettersPage:
    """Dead letters of a topic by reason; with `preview`, the target topics of a redrive."""
    letters, left_out = await _read(context, query, to_send=query.preview)
    return LettersPage(
        query.topic,
        reasons_of(letters),
        [row_of(letter) for letter in letters[:MAX_ROWS]],
        len(letters),
        await _records(context, query.topic) <= MAX_READ and sum(each.size for each in letters) < MAX_BYTES,
        targets_of(letters, query.to),
        left_out,
        await may_change(context, Operation.READ, ResourceType.GROUP, GROUP_PREFIX + query.topic),
    )


@routes.action("/dead/{topic}/redrive", needs=topic(Operation.READ))
async def redrive_letters(context: RequestScope, form: RedriveForm) -> RedriveReport:
    """Send dead letters back to their topics of origin, each once. Needs WRITE on these topics, READ on them for
    letters without a copy of the record, and READ on the group barnabas-redrive-TOPIC, which tracks sent letters. The
    console's login, or that of the user, needs WRITE on the transactional id of the same name."""
    await context.demand(Operation.READ, ResourceType.GROUP, GROUP_PREFIX + form.topic)
    await _refuse_masked(context, form.to, [form.topic])
    query = LettersQuery(form.topic, form.where, form.to, form.limit)
    letters, _ = await _read(context, query, to_send=True)
    if form.seen is not None and form.seen != len(letters):
        raise StaleError(
            f"The dry run showed {form.seen} letters; there are {len(letters)} now. Repeat the dry run"
        )
    targets = targets_of(letters, form.to)
    if "" in targets:
        raise BadInputError(
            "Some letters do not contain their origin topic: enter a topic to send them to", "to"
        )
    for target in targets:
        await context.demand(Operation.WRITE, ResourceType.TOPIC, target)
    await _check_originals(context, letters, form.to)
    outcome = await redrive(context.client, form.topic, letters, form.to or None)
    lost = [letter.where for letter in outcome.lost]
    message = f"{outcome.sent} dead letters were sent back."
    if lost:
        message += f" {len(lost)} were not: they contain no copy of the record, and the original is deleted."
    return RedriveReport(message, f"/dead/{quote(form.topic)}", outcome.sent, lost)


async def _check_originals(context: RequestScope, letters: list[DeadLetter], to: str) -> None:
    """Demand READ on the origins of letters without a copy: a forged letter could name any record."""
    origins = sorted({letter.origin.topic for letter in letters if not letter.has_content})
    for origin in origins:
        await context.demand(Operation.READ, ResourceType.TOPIC, origin)
    await _refuse_masked(context, to, origins)


async def _refuse_masked(context: RequestScope, to: str, topics: Iterable[str]) -> None:
    if to and any([await context.hidden(topic) for topic in topics if topic != to]):
        raise RefusedError(
            "What these records hold is masked for you: they can only go back to where they came from"
        )


def targets_of(letters: list[DeadLetter], to: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for letter in letters:
        target = to or letter.origin.topic
        counts[target] = counts.get(target, 0) + 1
    return dict(sorted(counts.items()))


async def _read(context: RequestScope, query: LettersQuery, *, to_send: bool) -> tuple[list[DeadLetter], int]:
    """Letters of a topic, or only those that a redrive can send with the number of the others."""
    hidden = await context.hidden(query.topic)
    if any(name in each.facts for name in hidden.headers for each in DIALECTS):
        raise RefusedError("Headers that say why these records are here are masked for you")
    wanted = filter_of(query.where, masked=bool(hidden))
    sendable = Sendable(wanted, query.to)
    read = read_letters if query.all else pending_letters
    bounds = {"limit": query.limit, "max_read": MAX_READ, "max_bytes": MAX_BYTES}
    letters = await read(context.client, query.topic, sendable if to_send else wanted, **bounds)
    return letters, sendable.left_out


async def _records(context: RequestScope, name: str) -> int:
    partitions = await context.client.partitions([name])
    starts = await beginning_offsets(context.client, partitions)
    ends = await end_offsets(context.client, partitions)
    return sum(ends.values()) - sum(starts.values())


async def _prefix(context: RequestScope) -> str:
    """Name prefix of share groups' dead-letter topics; empty if the brokers lack the setting (Apache Kafka before 4.4)
    or the user may not see settings."""
    client = context.client
    try:
        broker = str(min(client.metadata.brokers or (await client.refresh([])).brokers))
        settings = await admin.describe_configs(client, admin.BROKER, broker)
    except (ClientError, KafkaError):
        return ""
    return next((each.value or "" for each in settings if each.name == PREFIX), "")
