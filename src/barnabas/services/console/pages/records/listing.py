"""Records of a topic: search, export and live tail."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

import msgspec

from barnabas.client import ClientError
from barnabas.common.errors import KafkaError
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import ConsoleError, explain
from barnabas.services.console.needs import topic
from barnabas.services.console.pages.records.asking import Asked, Limit, search_of
from barnabas.services.console.routes import DownloadResponse, Event, Routes
from barnabas.services.console.scanning.model import (
    Decode,
    Hit,
    Hits,
    ScanEnd,
    ScanProgress,
    SearchEvent,
    Skipped,
)
from barnabas.services.console.scanning.scanner import MAX_EXPORTED, check

routes = Routes()


class RecordsQuery(Asked, kw_only=True):
    limit: Limit = 100
    at: str = ""
    """Continuation token of an earlier search (`continue_at`)."""
    wait: bool = False
    """Include the results in the page: for API clients, and for browsers without JavaScript."""


class RecordsPage(msgspec.Struct):
    topic: str
    partitions: int
    may_write: bool
    decodes: list[str]
    rows: list[Hit]
    end: ScanEnd | None = None
    onward: str = ""
    """Query string of the next page."""


class Failure(msgspec.Struct):
    error: str
    field: str = ""


@routes.page("/topics/{topic}/records", needs=topic(Operation.READ), template="records/listing.html")
async def show_records(context: RequestScope, query: RecordsQuery) -> RecordsPage:
    """Search a topic's records. With `wait=true` the response has them, otherwise `records/search` streams them."""
    context.cluster.scanner.warm()
    found = (await context.client.topics([query.topic]))[query.topic]
    may_write = not context.settings.read_only and await context.may(
        Operation.WRITE, ResourceType.TOPIC, query.topic
    )
    page = RecordsPage(query.topic, len(found.partitions), may_write, [each.value for each in Decode], [])
    if query.wait:
        async with aclosing(_events(context, query)) as events:
            async for event in events:
                if isinstance(event, Hits):
                    page.rows += event.rows
                elif isinstance(event, ScanEnd):
                    page.end = event
        page.onward = _onward(query, page.end)
    return page


def _onward(query: RecordsQuery, end: ScanEnd | None) -> str:
    if end is None or not end.continue_at:
        return ""
    requested = msgspec.to_builtins(msgspec.structs.replace(query, at=end.continue_at))
    del requested["topic"]
    return urllib.parse.urlencode(
        {name: _word(value) for name, value in requested.items() if value not in ("", False)}
    )


def _word(value: object) -> str:
    return "true" if value is True else str(value)


@routes.stream("/topics/{topic}/records/search", needs=topic(Operation.READ))
async def search_records(context: RequestScope, query: RecordsQuery) -> AsyncGenerator[Event, None]:
    """Search results as events: `hits` and `progress`, then `end`, or `failed` with a message."""
    try:
        async with aclosing(_events(context, query)) as events:
            async for event in events:
                yield Event(_NAMES[type(event)], event)
    except (ConsoleError, KafkaError, ClientError, OSError) as error:
        yield failed(error)


async def _events(context: RequestScope, query: RecordsQuery) -> AsyncGenerator[SearchEvent, None]:
    search = await search_of(context, query, query.limit, query.at)
    async with aclosing(context.cluster.scanner.search(context.client, search)) as events:
        async for event in events:
            yield _without_bytes(event) if search.masks else event


def _without_bytes(event: SearchEvent) -> SearchEvent:
    """Clear byte counts: the size of a record would reveal the length of its masked fields."""
    if isinstance(event, ScanProgress):
        return msgspec.structs.replace(event, bytes=0)
    if isinstance(event, ScanEnd):
        return msgspec.structs.replace(event, progress=msgspec.structs.replace(event.progress, bytes=0))
    return event


_NAMES = {Hits: "hits", ScanProgress: "progress", ScanEnd: "end"}


def failed(error: Exception) -> Event:
    known = explain(error)
    return Event("failed", Failure(known.message, known.field))


# -- Export --------------------------------------------------------------------------------------------

_TYPES = {
    "json": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
_ENDINGS = {"json": "jsonl", "csv": "csv", "parquet": "parquet"}


class ExportQuery(Asked, kw_only=True):
    format: Literal["json", "csv", "parquet"] = "json"
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_EXPORTED)] = 100_000


@routes.download("/topics/{topic}/records/export", needs=topic(Operation.READ))
async def export_records(context: RequestScope, query: ExportQuery) -> DownloadResponse:
    """Records found by a search, oldest first, as JSON lines, CSV or Parquet; masks apply."""
    search = msgspec.structs.replace(await search_of(context, query, query.limit), newest_first=False)
    check(search, MAX_EXPORTED)
    chunks = context.cluster.scanner.export(context.client, search, query.format)
    return DownloadResponse(f"{query.topic}.{_ENDINGS[query.format]}", _TYPES[query.format], chunks)


# -- Live tail: at most 50 rows a second; skipped records are counted ----------------------------------


class TailQuery(Asked, kw_only=True):
    at: str = ""
    """Continuation token of a paused tail."""


class TailPage(msgspec.Struct):
    topic: str
    partitions: int
    decodes: list[str]


@routes.page("/topics/{topic}/tail", needs=topic(Operation.READ), template="records/tail.html")
async def show_tail(context: RequestScope, query: TailQuery) -> TailPage:
    """Live tail of a topic; `tail/stream` sends the records."""
    context.cluster.scanner.warm()
    found = (await context.client.topics([query.topic]))[query.topic]
    return TailPage(query.topic, len(found.partitions), [each.value for each in Decode])


@routes.stream("/topics/{topic}/tail/stream", needs=topic(Operation.READ))
async def tail_records(context: RequestScope, query: TailQuery) -> AsyncGenerator[Event, None]:
    """`hits` with the records of the last half second, `skipped` with the number of records left out."""
    try:
        search = await search_of(context, query, 100, query.at)
        async with aclosing(context.cluster.scanner.tail(context.client, search)) as events:
            async for event in events:
                yield Event("skipped" if isinstance(event, Skipped) else "hits", event)
    except (ConsoleError, KafkaError, ClientError, OSError) as error:
        yield failed(error)
