"""Renders pages as HTML: jinja2 with autoescape, and filters for numbers, sizes and times."""

from __future__ import annotations

import urllib.parse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2

from barnabas.services.console.context import RequestScope
from barnabas.services.console.routes import ConsoleRoute
from barnabas.services.console.static_files import StaticFiles

FOLDER = Path(__file__).parent / "templates"
UNKNOWN = "\N{EN DASH}"
_SIZES = ("B", "KB", "MB", "GB", "TB", "PB")


class Renderer:
    def __init__(self, static: StaticFiles) -> None:
        self._jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.globals["static"] = static.url
        self._jinja.filters |= {
            "number": number,
            "size": size,
            "duration": duration,
            "time": moment,
            "quote": quote,
        }

    def page(
        self, route: ConsoleRoute, context: RequestScope, query: Any, page: Any, path: str, message: str
    ) -> bytes:
        shown = {"route": route, "query": query, "page": page, "path": path, "message": message}
        return self._render(route.template, context, shown)

    def error(self, context: RequestScope | None, status: int, message: str, field: str) -> bytes:
        return self._render("error.html", context, {"status": status, "message": message, "field": field})

    def _render(self, template: str, context: RequestScope | None, shown: dict[str, Any]) -> bytes:
        url = context.url if context is not None else (lambda path="/": path)
        text = self._jinja.get_template(template).render(context=context, url=url, **shown)
        return text.encode("utf-8", "replace")


def quote(text: str) -> str:
    """Quote text as one path segment or query value."""
    return urllib.parse.quote(text, safe="")


def number(value: float | None, digits: int = 1) -> str:
    """Format with thousands separators; None is a dash."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) or value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.{digits}f}"


def size(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    for unit in _SIZES:
        if abs(value) < 1000 or unit == _SIZES[-1]:
            return f"{value:,.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:,.1f} {unit}"
        value /= 1000
    raise AssertionError


def duration(seconds: float | None) -> str:
    """The two largest units: 3 d 4 h, 12 min 5 s, 1.5 s."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{number(round(seconds, 1))} s"
    whole = int(seconds)
    for unit, length, lower, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {lower}" if rest else "")
    raise AssertionError


def moment(milliseconds: float | None) -> str:
    """UTC time in ISO 8601 format, with a space instead of the T."""
    if milliseconds is None or milliseconds < 0:
        return UNKNOWN
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds:.0f} ms"
    return found.strftime("%Y-%m-%d %H:%M:%S.") + f"{found.microsecond // 1000:03d}Z"
