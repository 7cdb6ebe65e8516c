"""Documentation of the JSON API."""

from __future__ import annotations

import asyncio

import msgspec

from barnabas.services.console.api_documentation import ApiRoute, described
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import SIGNED_IN
from barnabas.services.console.routes import NavigationEntry, Routes

routes = Routes()


class ApiQuery(msgspec.Struct):
    q: str = ""
    """Text in the path or the summary."""


class ApiPage(msgspec.Struct):
    routes: list[ApiRoute]


@routes.page(
    "/api", needs=SIGNED_IN, template="access/api.html", entry=NavigationEntry("API", "j", 99), outside=True
)
async def show_api(context: RequestScope, query: ApiQuery) -> ApiPage:
    """Paths of the JSON API, with parameters, responses and required rights."""
    wanted = query.q.lower()
    known = await asyncio.to_thread(described, context.table)  # 25 ms on the first call
    return ApiPage([each for each in known if wanted in f"{each.path} {each.summary}".lower()])
