"""Log lines: search with histogram and facets, and one line in context."""

from __future__ import annotations

import time
import urllib.parse
from typing import TYPE_CHECKING, Any

import msgspec

from barnabas.common.types import TopicPartition
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, RefusedError, ResourceNotFoundError
from barnabas.services.console.needs import Needs, topic
from barnabas.services.console.routes import NavigationEntry, Routes

if TYPE_CHECKING:
    from barnabas.services.console.logs.archive import LogArchive, LogSearchResult
    from barnabas.services.console.logs.query import LineFilter

routes = Routes()

MAX_LINES = 500
MAX_AROUND = 200
MAX_NAMED = 5
READ_LINES = Needs(note="READ on the topics with lines; lines of other topics are neither shown nor counted")
CHART_WIDTH, CHART_HEIGHT = 600, 90


class LogsQuery(msgspec.Struct):
    find: str = ""
    """Words and "phrases" that a line contains; a leading - excludes one."""
    regex: bool = False
    """`find` is an RE2 pattern."""
    level: list[str] = []
    host: list[str] = []
    service: list[str] = []
    topic: list[str] = []
    since: str = "24h"
    until: str = ""
    before: str = ""
    """Cursor of the page of older lines: `older` of the previous page."""
    limit: int = 100
    live: bool = False


class ShownLine(msgspec.Struct):
    time: int
    level: str
    host: str
    service: str
    source: str
    topic: str
    partition: int
    offset: int
    message: str
    cut: bool
    marks: list[tuple[int, int]] = []
    """Ranges of the message that match the search: start and end."""
    here: bool = False


class ShownFacet(msgspec.Struct):
    value: str
    count: int
    chosen: bool
    link: str
    """Query string with this value added or removed."""


class ShownBox(msgspec.Struct):
    """Segment of a bar, in units of the chart."""

    level: str
    y: float
    height: float


class ShownBar(msgspec.Struct):
    start: int
    end: int
    total: int
    counts: dict[str, int]
    x: float
    width: float
    boxes: list[ShownBox]


class LogsPage(msgspec.Struct):
    lines: list[ShownLine] = []
    matched: int = 0
    scanned: int = 0
    total: int = 0
    complete: bool = True
    seconds: float = 0.0
    bars: list[ShownBar] = []
    facets: dict[str, list[ShownFacet]] = {}
    older: str = ""
    older_link: str = ""
    live_link: str = ""
    topics: list[str] = []
    """Topics with lines that the user may read."""
    behind: int = 0
    """Records in the topics that were not read yet."""
    notes: list[str] = []
    """Notes about missing lines."""


class LineQuery(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    around: int = 20


class LinePage(msgspec.Struct):
    lines: list[ShownLine]
    """Lines in order; `here` marks the requested one."""
    source: str
    host: str


@routes.page(
    "/logs",
    needs=READ_LINES,
    template="logs/search.html",
    entry=NavigationEntry("Logs", "l", 28, "logs", "Data"),
)
async def search_logs(context: RequestScope, query: LogsQuery) -> LogsPage:
    """Log lines of the last day, newest first: by text, level, host, service, topic and time."""
    archive = context.cluster.logs.archive
    if archive is None:
        return LogsPage(notes=[NOTHING_YET])
    readable = await _readable(context, archive)
    wanted = _wanted(query, readable)
    found = await archive.search(wanted, min(max(query.limit, 1), MAX_LINES), _cursor(query))
    page = _page(query, wanted, found)
    if archive.kept_topics - readable:
        page.total = page.scanned = page.matched  # hides the number of lines in other topics
    page.topics = sorted(readable)
    page.behind = archive.status.behind
    refused = archive.status.refused[:MAX_NAMED]
    page.notes = _notes(
        archive, readable, await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, refused)
    )
    return page


@routes.page("/logs/{topic}/{partition}/{offset}", needs=topic(Operation.READ), template="logs/line.html")
async def show_line(context: RequestScope, query: LineQuery) -> LinePage:
    """One log line, with the lines before and after it in the same file or program."""
    archive = context.cluster.logs.archive
    await _refuse_masked(context, query.topic)
    tp = TopicPartition(query.topic, query.partition)
    around = min(max(query.around, 1), MAX_AROUND)
    found = None if archive is None else await archive.surroundings(tp, query.offset, around)
    if found is None:
        raise ResourceNotFoundError(
            f"The line at offset {query.offset} of {tp} is not kept here (any more); its record may be: see the "
            "records of the topic"
        )
    allowed = await context.allowed(
        Operation.READ, ResourceType.TOPIC, {line.topic for line in (*found.before, *found.after)}
    )
    allowed = {name for name in allowed if not await context.hidden(name)}
    lines = [_line(line, ()) for line in found.before if line.topic in allowed]
    lines += [_line(found.line, (), here=True)]
    lines += [_line(line, ()) for line in found.after if line.topic in allowed]
    return LinePage(lines, found.line.source, found.line.host)


NOTHING_YET = (
    "No topic with log lines is known yet. `barnabas ingest files` and `barnabas ingest syslog` write some, and so "
    "does the pipeline template `logs`; other topics are named in the console's file."
)


async def _readable(context: RequestScope, archive: LogArchive) -> set[str]:
    """Topics whose lines the user may read; raises RefusedError if there are topics but READ on none."""
    known = archive.kept_topics
    allowed = await context.allowed(Operation.READ, ResourceType.TOPIC, known)
    if known and not allowed:
        raise RefusedError(
            f"{context.user.name} may not read log lines: this needs READ on a topic with log lines. Ask an "
            "administrator of the cluster or of the console"
        )
    return {name for name in allowed if not await context.hidden(name)}


async def _refuse_masked(context: RequestScope, name: str) -> None:
    """Refuse topics with masks: a line may contain the masked fields."""
    if await context.hidden(name):
        raise RefusedError(f"Values of {name} are masked for {context.user.name}, and so are its log lines")


def _wanted(query: LogsQuery, readable: set[str]) -> LineFilter:
    from barnabas.services.console.logs.query import (
        BadQueryError,
        LineFilter,
        moment_of,
        read_levels,
        read_names,
        read_text,
    )

    now, field = time.time(), "find"
    try:
        terms = read_text(query.find, is_pattern=query.regex)
        field = "level"
        levels = read_levels(",".join(query.level))
        field = "since"
        since = moment_of(query.since, now)
        field = "until"
        until = moment_of(query.until, now)
    except BadQueryError as error:
        raise BadInputError(str(error), field) from None
    names = read_names({"host": query.host, "service": query.service})
    names["topic"] = frozenset(readable & set(query.topic) if query.topic else readable)
    return LineFilter(terms, levels, names, since, until)


def _cursor(query: LogsQuery) -> Any:
    from barnabas.services.console.logs.query import BadQueryError, read_cursor

    try:
        return read_cursor(query.before) if query.before else None
    except BadQueryError as error:
        raise BadInputError(str(error), "before") from None


def _page(query: LogsQuery, wanted: LineFilter, found: LogSearchResult) -> LogsPage:
    page = LogsPage(
        lines=[_line(line, wanted.terms) for line in found.lines],
        matched=found.matched,
        scanned=found.scanned,
        total=found.total,
        complete=found.complete,
        seconds=found.seconds,
        bars=_bars(found),
        older=found.older,
    )
    if found.older:
        page.older_link = link_to(query, before=found.older, live=False)
    page.live_link = link_to(query, live=not query.live, before="")
    for name, facets in found.facets.items():
        chosen = getattr(query, name)
        page.facets[name] = [
            ShownFacet(each.value, each.count, each.value in chosen, _toggled(query, name, each.value))
            for each in facets
        ]
        page.facets[name] += [
            ShownFacet(value, 0, True, _toggled(query, name, value))
            for value in chosen
            if value not in {each.value for each in facets}
        ]
    return page


def _line(line: Any, terms: Any, *, here: bool = False) -> ShownLine:
    from barnabas.services.console.logs.query import marks_of

    fields = msgspec.structs.asdict(line)
    del fields["row"]
    return ShownLine(**fields, marks=marks_of(line.message, terms), here=here)


def _bars(found: LogSearchResult) -> list[ShownBar]:
    """Compute bar positions here, since CSS would need inline styles."""
    highest = max((bar.total for bar in found.bars), default=0) or 1
    width = CHART_WIDTH / max(1, len(found.bars))
    return [
        ShownBar(
            bar.start,
            bar.start + found.width,
            bar.total,
            bar.counts,
            round(number * width, 2),
            round(width * 0.9, 2),
            _boxes(bar.counts, highest),
        )
        for number, bar in enumerate(found.bars)
    ]


def _boxes(counts: dict[str, int], highest: int) -> list[ShownBox]:
    """Stack the levels with the worst at the bottom."""
    boxes, top = [], float(CHART_HEIGHT)
    for level, count in reversed(counts.items()):
        height = max(1.0, count * CHART_HEIGHT / highest)
        top = max(0.0, top - height)
        boxes.append(ShownBox(level, round(top, 2), round(height, 2)))
    return boxes


def _notes(archive: LogArchive, readable: set[str], refused: set[str]) -> list[str]:
    status = archive.status
    notes = []
    if hidden := len(archive.kept_topics - readable):
        notes.append(
            f"Lines of {hidden} topic{'s' if hidden > 1 else ''} are not for you: they are left out."
        )
    if refused:
        notes.append(f"The console itself may not read {', '.join(sorted(refused))}: it needs READ there.")
    if status.error:
        notes.append(f"Newer lines are missing: {status.error}")
    if status.lost:
        notes.append(f"Lines were removed from a topic before they were read: {status.lost}")
    return notes


def _toggled(query: LogsQuery, name: str, value: str) -> str:
    chosen: list[str] = getattr(query, name)
    changed = [each for each in chosen if each != value] if value in chosen else [*chosen, value]
    return link_to(query, before="", **{name: changed})


def link_to(query: LogsQuery, **changes: Any) -> str:
    """Query string of the changed search; default values are omitted."""
    changed = msgspec.structs.replace(query, **changes)
    usual = LogsQuery()
    parameters = {
        name: ("true" if value is True else "false" if value is False else value)
        for name, value in msgspec.structs.asdict(changed).items()
        if value != getattr(usual, name)
    }
    return "?" + urllib.parse.urlencode(parameters, doseq=True)
