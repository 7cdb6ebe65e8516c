"""Each route requires a login and its declared role: generated from the route table."""

from __future__ import annotations

import types
import typing
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Any

import msgspec
import pytest

from barnabas.services.console.access.model import Role
from barnabas.services.console.access.roles import rights_of
from barnabas.services.console.errors import ResourceNotFoundError
from barnabas.services.console.pages import route_table
from barnabas.services.console.routes import ConsoleRoute, Event, PageTable, RouteKind
from barnabas.testing import EmbeddedBroker
from tests.services.console.access.people import NOBODY, by_token, change, with_roles
from tests.services.console.web import Answer, RunningConsole, Web, running_console
from tests.support.waiting import until

ROUTES = [route for route in route_table().routes if not route.right.without_login]
WITH_RIGHT = [route for route in ROUTES if route.right.all_of]
WITHOUT = [route for route in ROUTES if not route.right.all_of and route.kind is not RouteKind.STREAM]
SECRET = "a-topic-that-only-some-may-see"
REACHED = "the page was reached"


def name_of(route: ConsoleRoute) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic(SECRET)
        yield running


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("console")
    with running_console(broker.bootstrap_servers, folder, access=with_roles()) as running:
        with by_token(running, "admin") as admin:
            until_seen(admin)
        yield running


def until_seen(web: Web) -> None:
    """Lists use samples: the first one must have been taken, or the test would prove nothing."""
    until(lambda: SECRET in web.api("/topics").text)


@pytest.fixture(scope="module")
def gates_only(console: RunningConsole) -> Iterator[RunningConsole]:
    """A console whose endpoints are stubs: only the authorization is tested."""
    complete = console.server.app.table
    console.server.app.table = PageTable([[replace(each, endpoint=_stub(each)) for each in complete.routes]])
    yield console
    console.server.app.table = complete


def _stub(route: ConsoleRoute) -> Any:
    async def endpoint(context: Any, query: Any) -> Any:
        raise ResourceNotFoundError(REACHED)

    async def stream(context: Any, query: Any) -> Any:
        yield Event("reached", REACHED)

    made = stream if route.kind is RouteKind.STREAM else endpoint
    made.__doc__ = route.summary
    return made


def ask(web: Web, route: ConsoleRoute, *, api: bool = True) -> Answer:
    path = "/" + "/".join(_segment(route, each) for each in route.segments)
    values = {
        field.encode_name: _value(field.type)
        for field in msgspec.structs.fields(route.query)
        if f"{{{field.encode_name}}}" not in route.segments
        and (field.required or field.encode_name in ("topic", "group", "target"))
    }
    path = f"/api/v1{path}" if api else path
    if route.method == "POST":
        return change(web, path, values)
    return web.ask("GET", f"{path}?{urllib.parse.urlencode(values, doseq=True)}")


def _segment(route: ConsoleRoute, word: str) -> str:
    known = {"{cluster}": "default", "{topic}": SECRET}
    if not word.startswith("{") or word in known:
        return known.get(word, word)
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(route.query)}
    return str(_value(kinds.get(word[1:-1], str), "x"))


def _value(kind: Any, text: str = SECRET) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _value(inner[0], text)
    if origin is typing.Literal:
        return inner[0]
    if origin in (typing.Union, types.UnionType):
        return _value(next(each for each in inner if each is not type(None)), text)
    if origin in (list, tuple, set, frozenset):
        return [_value(inner[0], text)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind)).value
    words: dict[Any, Any] = {int: 1, float: 1.0, bool: False, dict: {}}
    return words.get(origin or kind, text)


def role_for(route: ConsoleRoute) -> Role:
    needed = {(need.resource_type, need.operation) for need in route.right.all_of}
    return next(role for role in Role if needed <= set(rights_of(role)))


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_login_is_required(gates_only: RunningConsole, route: ConsoleRoute) -> None:
    with gates_only.web() as web:
        assert ask(web, route).status == 401
        page = ask(web, route, api=False)
        if route.method == "GET":
            assert page.status == 303
            assert page.headers["location"].startswith("/login?next=%2F")
        else:
            assert page.status == 401
        web.headers["Authorization"] = "Bearer guessed"
        assert ask(web, route).status == 401


@pytest.mark.parametrize("route", WITH_RIGHT, ids=name_of)
def test_a_route_is_for_its_role_and_not_for_the_one_below(
    gates_only: RunningConsole, route: ConsoleRoute
) -> None:
    role = role_for(route)
    below = Role(role - 1).name.lower() if role > Role.VIEWER else NOBODY
    with by_token(gates_only, below) as web:
        refused = ask(web, route)
    with by_token(gates_only, role.name.lower()) as web:
        allowed = ask(web, route)

    assert refused.status == 403, refused.text
    assert "may not do this" in refused.json["error"]
    assert allowed.status == (200 if route.kind is RouteKind.STREAM else 404)
    assert REACHED in allowed.text


@pytest.mark.parametrize("route", WITHOUT, ids=name_of)
def test_route_with_its_own_check_denies_unauthorized_users(
    console: RunningConsole, route: ConsoleRoute
) -> None:
    with by_token(console, NOBODY) as web:
        answer = ask(web, route)

    if route.kind is RouteKind.ACTION:
        assert answer.status in (400, 403, 404), answer.text
    else:
        assert answer.status < 500
        shown = answer.text.replace(f'"{SECRET}"', "", 1) if answer.status >= 400 else answer.text
        assert SECRET not in shown or answer.status in (400, 403, 404)


@pytest.mark.parametrize("route", [each for each in ROUTES if each.kind is RouteKind.ACTION], ids=name_of)
def test_cross_site_requests_change_nothing(gates_only: RunningConsole, route: ConsoleRoute) -> None:
    with by_token(gates_only, "admin") as web:
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            web.headers |= headers
            answer = ask(web, route)
            assert answer.status == 403
            assert "another site" in answer.json["error"]
            for name in headers:
                del web.headers[name]


@pytest.fixture(scope="module")
def read_only(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("read-only")
    with running_console(broker.bootstrap_servers, folder, access=with_roles(), read_only=True) as running:
        yield running


@pytest.mark.parametrize(
    "route", [each for each in ROUTES if each.kind is RouteKind.ACTION and not each.outside], ids=name_of
)
def test_a_read_only_console_changes_nothing(read_only: RunningConsole, route: ConsoleRoute) -> None:
    with by_token(read_only, "admin") as web:
        answer = ask(web, route)

    assert answer.status == 403
    assert "read-only" in answer.json["error"]
