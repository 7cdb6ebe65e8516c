"""Invariants of every page of the route table, in a real browser, with hostile names and bytes."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from barnabas.services.console.pages import route_table
from barnabas.services.console.routes import ConsoleRoute, RouteKind
from tests.services.console.browser import hostile
from tests.services.console.browser.visits import DESKTOP, PHONE, Scheme, Visit, visiting
from tests.services.console.web import CLUSTER, RunningConsole

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MAX_PAGE = 60_000
"""Bytes as they are transferred, with everything that the page asks for."""

# Path parameters: hostile where Kafka allows it.
PARAMETERS = {
    "cluster": CLUSTER,
    "topic": hostile.HOSTILE,
    "group": hostile.IMAGE,
    "broker": "1",
    "id": "1",
    "partition": "0",
    "offset": "0",
    "name": hostile.SCRIPT,
    "transactional_id": hostile.IMAGE,
    "subject": hostile.SCRIPT,
}
# Query parameters of a page.
QUERIES = {
    "/goto": {"q": hostile.IMAGE},
    "/api": {"q": "groups"},  # partially: axe-core checks each line, here and of 300 settings
    "/brokers/{id}/config": {"q": "log.cleaner", "changes": "log.cleaner.threads=2"},
    "/topics/{topic}/config": {"changes": "retention.ms=5"},
    "/many-topics": {"topics": hostile.LONG, "do": "set", "changes": "retention.ms=5"},
    "/create-topic": {"topic": "another"},
    "/moves": {"plan": "balance"},
    "/transactions": {"hanging": "true", "minutes": "0"},
    "/dead/{topic}": {"preview": "true"},
    "/curves": {"series": f"topic/{hostile.HOSTILE}/in"},
    "/schemas/{subject}": {"tab": "changes"},
    "/check-schema": {"subject": hostile.SCRIPT, "schema": '"string"'},
    "/access/may": {"principal": f"User:{hostile.IMAGE}", "name": hostile.SCRIPT},
}
SPECIAL = {"/dead/{topic}": {"topic": hostile.DEAD}}
# Of a console with an OpenID provider only; tests/services/console/access has one.
ELSEWHERE = {"/login/oidc", "/login/oidc/callback"}
PAGES = [
    route for route in route_table().routes if route.kind is RouteKind.PAGE and route.path not in ELSEWHERE
]


def url_of(route: ConsoleRoute) -> str:
    parameters = PARAMETERS | SPECIAL.get(route.cluster_path, {})
    parts = [_part(segment, parameters) for segment in route.segments]
    query = urllib.parse.urlencode(QUERIES.get(route.cluster_path, {}))
    return "/" + "/".join(parts) + (f"?{query}" if query else "")


def _part(segment: str, parameters: dict[str, str]) -> str:
    if not segment.startswith("{"):
        return segment
    name = segment[1:-1]
    assert name in parameters, f"say in PARAMETERS what {segment} may be"
    return urllib.parse.quote(parameters[name], safe="")


@pytest.mark.parametrize("route", PAGES, ids=lambda route: route.path)
def test_a_page_is_sound(
    chromium: Browser,
    hostile_console: RunningConsole,
    route: ConsoleRoute,
    record_property: Callable[[str, object], None],
) -> None:
    with visiting(chromium, hostile_console.url) as visit:
        visit.open(url_of(route))
        assert visit.status == 200, visit.page.locator("main").inner_text()
        record_property("page", (route.path, visit.bytes, visit.first_paint_ms))
        assert visit.page.locator("h1").count() == 1
        assert visit.bytes <= MAX_PAGE
        assert visit.accessibility() == []
        _look_in_the_dark_and_at_a_phone(visit)
        _is_harmless(visit)


SAID = {
    "/groups": (hostile.IMAGE, hostile.SCRIPT, hostile.LINK),
    f"/groups/{urllib.parse.quote(hostile.IMAGE, safe='')}": (hostile.IMAGE,),
    "/groups/members": (hostile.CLIENT,),
    "/access/acls": (hostile.IMAGE, hostile.TEMPLATE),
    "/access/users": (hostile.IMAGE, hostile.SCRIPT),
    "/pipelines": (hostile.SCRIPT,),
    "/schemas": (hostile.SCRIPT, hostile.TEMPLATE),
    "/transactions": (hostile.IMAGE,),
    f"/dead/{hostile.DEAD}": (hostile.SCRIPT, hostile.IMAGE),
}


def test_hostile_names_are_shown_as_they_are(chromium: Browser, hostile_console: RunningConsole) -> None:
    with visiting(chromium, hostile_console.url) as visit:
        for path, texts in SAID.items():
            visit.open(f"/c/{CLUSTER}{path}")
            main = visit.page.locator("main")
            for text in texts:
                main.get_by_text(text).first.wait_for(state="attached")
            _is_harmless(visit)


@pytest.mark.extended
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("route", PAGES, ids=lambda route: route.path)
def test_a_page_has_no_violation_in_any_size_and_theme(
    chromium: Browser,
    hostile_console: RunningConsole,
    route: ConsoleRoute,
    size: tuple[int, int],
    scheme: Scheme,
) -> None:
    with visiting(chromium, hostile_console.url, scheme, size) as visit:
        visit.open(url_of(route))
        assert visit.accessibility() == []
        assert visit.sideways == []
        _is_harmless(visit)


def _look_in_the_dark_and_at_a_phone(visit: Visit) -> None:
    visit.page.emulate_media(color_scheme="dark")
    assert visit.accessibility("color-contrast") == []
    visit.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    visit.settle()
    assert visit.sideways == []
    visit.page.emulate_media(color_scheme="light")
    assert visit.accessibility("scrollable-region-focusable", "target-size") == []
    visit.page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})


def _is_harmless(visit: Visit) -> None:
    assert visit.injected == {}
    assert visit.violations == []
    assert visit.errors == []
    assert visit.elsewhere == []
