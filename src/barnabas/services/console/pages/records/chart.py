"""Activity report of a topic: latest value of each key as a table, numeric fields as curves."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec

from barnabas.security.authz import Operation
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import topic
from barnabas.services.console.pages.records.asking import Asked, search_of
from barnabas.services.console.routes import Routes
from barnabas.services.console.scanning.model import Hit
from barnabas.services.console.scanning.scanner import MAX_REPORTED

routes = Routes()

POINTS = 240
MAX_START = 8.0
"""Seconds for everything except reading: a busy machine, a process that is started, a slow broker."""
MAX_COLUMNS = 12
_VALUE_BYTES = 64 << 10


class ChartQuery(Asked, kw_only=True):
    records: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPORTED)] = 10_000
    keys: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    seconds: Annotated[float, msgspec.Meta(ge=0.1, le=20)] = 2.0
    """The report covers the records read in this time."""


class FieldCurve(msgspec.Struct):
    field: str
    values: list[float | None]
    lowest: float
    highest: float


class ChartPage(msgspec.Struct):
    """`columns`: fields of the latest values; `cells`: one list per hit in `newest`."""

    topic: str = ""
    records: int = 0
    newest: list[Hit] = []
    times: list[int] = []
    curves: list[FieldCurve] = []
    left_out: int = 0
    stopped: bool = False
    columns: list[str] = []
    cells: list[list[str]] = []


@routes.page("/topics/{topic}/chart", needs=topic(Operation.READ), template="records/chart.html")
async def show_chart(context: RequestScope, query: ChartQuery) -> ChartPage:
    """Latest value of each key, and means of each numeric field over time, from the newest records."""
    search = msgspec.structs.replace(
        await search_of(context, query, query.records), newest_first=True, shown_bytes=_VALUE_BYTES
    )
    scanner = context.cluster.scanner
    async with asyncio.timeout(query.seconds + MAX_START):
        found = await scanner.report(context.client, search, query.keys, POINTS, query.seconds)
    page = msgspec.json.decode(found, type=ChartPage)
    page.topic = query.topic
    values = [_fields(hit) for hit in page.newest]
    names = dict.fromkeys(name for value in values for name in value)
    page.columns = list(names)[:MAX_COLUMNS]
    page.cells = [[_cell(value.get(name)) for name in page.columns] for value in values]
    return page


def _fields(hit: Hit) -> dict[str, Any]:
    """Fields of the value; a value without fields becomes `value`."""
    try:
        found = msgspec.json.decode(hit.value.text) if not hit.value.cut else hit.value.text
    except msgspec.MsgspecError:
        found = hit.value.text
    return found if isinstance(found, dict) else {"value": found}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
