"""Routes of pages, actions, streams and downloads, each with its endpoint and required rights.

    routes = Routes()

    @routes.page("/groups/{group}", needs=group(Operation.DESCRIBE), template="groups/one.html")
    async def show_group(context: Context, query: GroupQuery) -> GroupPage:
        '''One group: members, lag, curves.'''

Paths are below `/c/{cluster}`, those of `outside=True` below `/`. The JSON API has the same paths below `/api/v1`.
"""

from __future__ import annotations

import typing
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from barnabas.services.console.errors import ResourceNotFoundError, WrongMethodError
from barnabas.services.console.needs import Needs
from barnabas.web import Match, MethodNotAllowedError, NotFoundError, Route, Router

E = TypeVar("E", bound=Callable[..., Any])

API_PREFIX = ["api", "v1"]
CLUSTER_PREFIX = "/c/{cluster}"


class RouteKind(Enum):
    PAGE = "page"
    ACTION = "action"
    STREAM = "stream"
    DOWNLOAD = "download"


class Event(msgspec.Struct):
    """One Server-Sent Event."""

    name: str
    data: Any


@dataclass(frozen=True, slots=True)
class DownloadResponse:
    name: str
    media_type: str
    chunks: AsyncIterator[bytes]


class ActionResult(msgspec.Struct):
    """Default result of an action. An action may also return another Struct with `see` and `message`."""

    message: str
    see: str = "/"
    """Redirect target for browsers, relative to the cluster."""


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """Entry of the sidebar: label, shortcut key after `g`, position, symbol of icons.svg, and the group's title."""

    word: str
    letter: str
    position: int
    icon: str
    section: str = ""


@dataclass(frozen=True, slots=True)
class ConsoleRoute(Route[Needs]):
    kind: RouteKind
    query: type[Any]
    template: str = ""
    entry: NavigationEntry | None = None
    outside: bool = False
    """True for cluster-independent routes."""

    @property
    def cluster_path(self) -> str:
        """Path for `Context.url`; equal to `path` for cluster-independent routes."""
        return self.path if self.outside else self.path.removeprefix(CLUSTER_PREFIX) or "/"

    @property
    def summary(self) -> str:
        return (self.endpoint.__doc__ or "").strip()

    @property
    def answer(self) -> type[Any]:
        found: type[Any] = typing.get_type_hints(self.endpoint)["return"]
        return found


class UndocumentedRouteError(TypeError):
    """A route lacks rights, types or a docstring: the console does not start."""


class Routes:
    """The routes of one module."""

    def __init__(self) -> None:
        self._routes: list[ConsoleRoute] = []

    def __iter__(self) -> Iterator[ConsoleRoute]:
        return iter(self._routes)

    def page(
        self,
        path: str,
        *,
        needs: Needs,
        template: str,
        entry: NavigationEntry | None = None,
        outside: bool = False,
    ) -> Callable[[E], E]:
        return self._add(RouteKind.PAGE, path, needs, template, entry, outside)

    def action(self, path: str, *, needs: Needs, outside: bool = False) -> Callable[[E], E]:
        """Register a change: POST, recorded in the audit log, rejected in read-only mode."""
        return self._add(RouteKind.ACTION, path, needs, outside=outside)

    def stream(self, path: str, *, needs: Needs) -> Callable[[E], E]:
        """Register an async generator of `Event`s."""
        return self._add(RouteKind.STREAM, path, needs)

    def download(self, path: str, *, needs: Needs, outside: bool = False) -> Callable[[E], E]:
        return self._add(RouteKind.DOWNLOAD, path, needs, outside=outside)

    def _add(
        self,
        kind: RouteKind,
        path: str,
        needs: Needs,
        template: str = "",
        entry: NavigationEntry | None = None,
        outside: bool = False,
    ) -> Callable[[E], E]:
        def add(endpoint: E) -> E:
            method = "POST" if kind is RouteKind.ACTION else "GET"
            full_path = path if outside else CLUSTER_PREFIX + ("" if path == "/" else path)
            query = _query_of(endpoint)
            self._routes.append(
                ConsoleRoute(method, full_path, endpoint, needs, kind, query, template, entry, outside)
            )
            return endpoint

        return add


def _query_of(endpoint: Callable[..., Any]) -> type[Any]:
    hints = [kind for name, kind in typing.get_type_hints(endpoint).items() if name != "return"]
    if len(hints) != 2 or not issubclass(hints[1], msgspec.Struct):
        raise UndocumentedRouteError(f"{endpoint.__qualname__} takes a Context and a Struct, both with types")
    found: type[Any] = hints[1]
    return found


@dataclass(frozen=True, slots=True)
class ConsoleMatch(Match[ConsoleRoute]):
    is_api: bool


class PageTable:
    def __init__(self, modules: Iterable[Iterable[ConsoleRoute]]) -> None:
        self.routes = [route for module in modules for route in module]
        self._router = Router(self.routes)
        for route in self.routes:
            if not str(route.right) or not route.summary:
                raise UndocumentedRouteError(f"{route.path} says no right, or not what it is for")

    def find(self, method: str, raw_path: str) -> ConsoleMatch:
        """Find the route of a page, or of the JSON API below `/api/v1`. Repeated slashes are collapsed."""
        segments = [each for each in raw_path.split("/") if each]
        is_api = segments[:2] == API_PREFIX
        path = "/" + "/".join(segments[2:] if is_api else segments)
        try:
            match = self._router.match(method, path)
        except NotFoundError:
            raise ResourceNotFoundError("Page not found") from None
        except MethodNotAllowedError:
            raise WrongMethodError(f"{method} is not allowed here") from None
        return ConsoleMatch(match.route, match.parameters, is_api)

    @property
    def entries(self) -> list[tuple[NavigationEntry, ConsoleRoute]]:
        found = [(route.entry, route) for route in self.routes if route.entry is not None]
        return sorted(found, key=lambda each: each[0].position)
