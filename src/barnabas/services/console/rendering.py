"""Renders pages as HTML: jinja2 with autoescape, and filters for numbers, sizes and times."""

from __future__ import annotations

import re
import time
import urllib.parse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from barnabas.services.console.context import RequestScope
from barnabas.services.console.routes import ConsoleRoute
from barnabas.services.console.static_files import StaticFiles

if TYPE_CHECKING:
    from barnabas.services.console.frame import PageFrame

FOLDER = Path(__file__).parent / "templates"
UNKNOWN = "\N{EN DASH}"
DAY = 86400
_JSON_TOKENS = re.compile(
    r'(?P<k>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<t>"(?:[^"\\]|\\.)*")|(?P<n>-?\d[\d.eE+-]*)|(?P<w>\b(?:true|false|null)\b)'
)
_PROTO_TOKENS = re.compile(
    r'(?P<s>//.*)|(?P<t>"(?:[^"\\]|\\.)*")|(?P<n>\b\d+\b)|(?P<k>\b(?:syntax|package|import|message|enum|oneof|repeated|optional|required|reserved|map|service|rpc|returns|option|public)\b)'
)
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
        self._jinja.globals["now"] = time.time
        self._jinja.filters |= {
            "number": number,
            "size": size,
            "duration": duration,
            "time": moment,
            "instant": instant,
            "ago": ago,
            "quote": quote,
            "code": code,
        }

    def page(
        self,
        route: ConsoleRoute,
        context: RequestScope,
        query: Any,
        page: Any,
        frame: PageFrame | None,
        message: str,
    ) -> bytes:
        shown = {"route": route, "query": query, "page": page, "frame": frame, "message": message}
        return self._render(route.template, context, shown)

    def error(
        self, context: RequestScope | None, status: int, message: str, field: str, frame: PageFrame | None
    ) -> bytes:
        shown = {"status": status, "message": message, "field": field, "frame": frame}
        return self._render("error.html", context, shown)

    def _render(self, template: str, context: RequestScope | None, shown: dict[str, Any]) -> bytes:
        url = context.url if context is not None else (lambda path="/": path)
        text = self._jinja.get_template(template).render(context=context, url=url, **shown)
        return text.encode("utf-8", "replace")


def quote(text: str) -> str:
    """Quote text as one path segment or query value."""
    return urllib.parse.quote(text, safe="")


def code(line: str, kind: str = "JSON") -> Markup:
    """A line of JSON or Protobuf, its tokens in elements with the classes of the record viewer."""
    pattern = _PROTO_TOKENS if kind == "PROTOBUF" else _JSON_TOKENS
    parts, at = [], 0
    for found in pattern.finditer(line):
        parts.append(escape(line[at : found.start()]))
        parts.append(Markup('<span class="{}">{}</span>').format(found.lastgroup, found[0]))
        at = found.end()
    return Markup("").join([*parts, escape(line[at:])])


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
    total = int(seconds)
    for unit, length, lower, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if total >= length:
            rest = total % length // part
            return f"{total // length} {unit}" + (f" {rest} {lower}" if rest else "")
    raise AssertionError


def instant(milliseconds: float | None) -> str:
    """UTC time in ISO 8601 format, with a space instead of the T."""
    if milliseconds is None or milliseconds < 0:
        return UNKNOWN
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds:.0f} ms"
    return found.strftime("%Y-%m-%d %H:%M:%S.") + f"{found.microsecond // 1000:03d}Z"


def moment(milliseconds: float | None) -> str:
    """`instant` as an element that the script shows in local time, if the user wants that."""
    text = instant(milliseconds)
    if not text.endswith("Z"):
        return text
    return Markup('<time datetime="{}">{}</time>').format(text.replace(" ", "T"), text)


def ago(milliseconds: float | None) -> str:
    """Distance from now up to a day, then day and time: `42 s ago`, `15 Nov 08:12`; exact in the tooltip."""
    text = instant(milliseconds)
    if milliseconds is None or not text.endswith("Z"):
        return "none yet" if text == UNKNOWN else text
    passed = time.time() - milliseconds / 1000
    if 0 <= passed < DAY:
        length, unit = (3600, "h") if passed >= 3600 else (60, "min") if passed >= 60 else (1, "s")
        shown = f"{passed // length:.0f} {unit} ago"
    else:
        shown = datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%-d %b %H:%M")
    return Markup('<time datetime="{}" title="{}" data-short>{}</time>').format(
        text.replace(" ", "T"), text, shown
    )
