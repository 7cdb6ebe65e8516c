"""Routes HTTP requests by method and path.

The path of a route consists of literal segments and parameters, for example `/groups/{group}/offsets`. A request's path
is split before it is percent-decoded: `%2F` belongs to the value of a parameter, and does not separate segments.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

RightT = TypeVar("RightT")
RouteT = TypeVar("RouteT", bound="Route[Any]")


@dataclass(frozen=True, slots=True)
class Route(Generic[RightT]):
    method: str
    path: str
    endpoint: Callable[..., Any]
    right: RightT
    """Checked by the application before it calls the endpoint."""

    @property
    def segments(self) -> list[str]:
        return _split(self.path)


@dataclass(frozen=True, slots=True)
class Match(Generic[RouteT]):
    route: RouteT
    parameters: dict[str, str]
    """Percent-decoded values of the path's parameters."""


class NotFoundError(Exception):
    """No route has this path."""


class MethodNotAllowedError(Exception):
    """Routes have this path, but not this method."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = sorted(set(allowed))
        super().__init__(f"method not allowed; use {' or '.join(self.allowed)}")


class Router(Generic[RouteT]):
    def __init__(self, routes: Iterable[RouteT]) -> None:
        self._routes = [(route.segments, route) for route in routes]

    def match(self, method: str, raw_path: str) -> Match[RouteT]:
        """Find the route of a request; HEAD is served by GET.

        If several routes fit, the one with the fewest parameters wins: `/groups/new` before `/groups/{group}`. Raises
        NotFoundError or MethodNotAllowedError.
        """
        segments = _split(raw_path)
        matches = [
            Match(route, parameters)
            for pattern, route in self._routes
            if (parameters := _parameters(pattern, segments)) is not None
        ]
        if not matches:
            raise NotFoundError(raw_path)
        served_by = "GET" if method == "HEAD" else method
        for match in sorted(matches, key=lambda match: len(match.parameters)):
            if match.route.method == served_by:
                return match
        raise MethodNotAllowedError(match.route.method for match in matches)


def _split(path: str) -> list[str]:
    return path.removeprefix("/").split("/")


def _parameters(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    """Values of the pattern's parameters; None if the segments do not match."""
    if len(pattern) != len(segments):
        return None
    parameters = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            parameters[expected[1:-1]] = urllib.parse.unquote(segment)
        elif expected != segment:
            return None
    return parameters
