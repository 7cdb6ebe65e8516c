"""Reference of the JSON API, generated from the route table: a console page, and docs/console-api.md."""

from __future__ import annotations

import asyncio
import types
import typing
from functools import cache
from typing import Any

import msgspec

from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import SIGNED_IN
from barnabas.services.console.routes import (
    ConsoleRoute,
    DownloadResponse,
    NavigationEntry,
    PageTable,
    RouteKind,
    Routes,
)

_WORDS = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    dict: "object",
    Any: "anything",
}
_LISTS = (list, tuple, set, frozenset)


class Parameter(msgspec.Struct):
    name: str
    kind: str
    default: str
    """Empty for a required parameter."""
    where: str
    """path, query or body."""


class ApiRoute(msgspec.Struct):
    method: str
    path: str
    kind: str
    needs: str
    summary: str
    parameters: list[Parameter]
    answer: str


@cache
def described(table: PageTable) -> list[ApiRoute]:
    """All routes, sorted by path."""
    found = [_described(route) for route in table.routes]
    return sorted(found, key=lambda each: (each.path, each.method))


def _described(route: ConsoleRoute) -> ApiRoute:
    return ApiRoute(
        route.method,
        f"/api/v1{route.path}".rstrip("/"),
        route.kind.value,
        str(route.right),
        " ".join(route.summary.split()),
        [_parameter(route, each) for each in msgspec.structs.fields(route.query)],
        _answer(route),
    )


def _parameter(route: ConsoleRoute, field: msgspec.structs.FieldInfo) -> Parameter:
    where = "body" if route.method == "POST" else "query"
    if f"{{{field.encode_name}}}" in route.segments:
        return Parameter(field.encode_name, type_word(field.type), "", "path")
    default = "" if field.required else _default(field)
    return Parameter(field.encode_name, type_word(field.type), default, where)


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return msgspec.json.encode(value).decode()


def _answer(route: ConsoleRoute) -> str:
    if route.kind is RouteKind.STREAM:
        return "Server-Sent Events"
    if route.answer is DownloadResponse:
        return "a download"
    return ", ".join(
        f"{each.encode_name}: {type_word(each.type)}" for each in msgspec.structs.fields(route.answer)
    )


def type_word(kind: Any) -> str:
    """A type in language-neutral terms."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return type_word(inner[0])
    if origin is typing.Literal:
        return " | ".join(str(each) for each in inner)
    if origin in (typing.Union, types.UnionType):
        return " | ".join("null" if each is type(None) else type_word(each) for each in inner)
    if origin in _LISTS:
        return f"[{type_word(inner[0])}]"
    if origin is dict:
        return f"{{{type_word(inner[0])}: {type_word(inner[1])}}}"
    return _WORDS.get(kind) or _named(kind)


def _named(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        inner = ", ".join(each.encode_name for each in msgspec.structs.fields(kind))
        return f"{{{inner}}}"
    if isinstance(kind, type) and hasattr(kind, "__members__"):
        return " | ".join(str(each.value) for each in kind)  # type: ignore[attr-defined]
    return getattr(kind, "__name__", str(kind))


routes = Routes()


class ApiQuery(msgspec.Struct):
    q: str = ""
    """Text in the path or the summary."""


class ApiPage(msgspec.Struct):
    routes: list[ApiRoute]


@routes.page(
    "/api",
    needs=SIGNED_IN,
    template="access/api.html",
    entry=NavigationEntry("API", "j", 99, "api"),
    outside=True,
)
async def show_api(context: RequestScope, query: ApiQuery) -> ApiPage:
    """Paths of the JSON API, with parameters, responses and required rights."""
    wanted = query.q.lower()
    known = await asyncio.to_thread(described, context.table)  # 25 ms on the first call
    return ApiPage([each for each in known if wanted in f"{each.path} {each.summary}".lower()])
