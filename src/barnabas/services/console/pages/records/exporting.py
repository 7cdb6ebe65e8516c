"""Export of the records of a search."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from barnabas.security.authz import Operation
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import topic
from barnabas.services.console.pages.records.asking import Asked, search_of
from barnabas.services.console.routes import DownloadResponse, Routes
from barnabas.services.console.scanning.scanner import MAX_EXPORTED, check

routes = Routes()

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
