"""The console without a mouse: Tab order, and the documented keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from barnabas.services.console.pages import route_table
from barnabas.services.console.routes import ConsoleRoute
from tests.services.console.browser.test_every_page import PAGES, url_of
from tests.services.console.browser.visits import Visit, visiting
from tests.services.console.web import CLUSTER, RunningConsole

if TYPE_CHECKING:
    from playwright.sync_api import Browser

GOTO = f"/c/{CLUSTER}/goto?q=o"
# Tab reaches every clickable element, with a visible focus. Dialogs trap the focus.
CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex='0']"
REACHED = """(controls) => {
    const root = document.querySelector("dialog:modal") ?? document;
    const wanted = [...root.querySelectorAll(controls)]
        .filter((each) => each.checkVisibility() && !each.disabled && each.type !== "hidden" && each.tabIndex >= 0);
    document.activeElement.blur();
    return wanted.map((each) => each.outerHTML.slice(0, 150));
}"""
FOCUSED = """() => {
    const now = document.activeElement;
    const style = getComputedStyle(now);
    return [now.outerHTML.slice(0, 150), style.outlineStyle !== "none" || style.boxShadow !== "none"];
}"""


@pytest.fixture
def visit(chromium: Browser, hostile_console: RunningConsole) -> Iterator[Visit]:
    with visiting(chromium, hostile_console.url) as visit:
        visit.open(GOTO)
        yield visit


# Others consist of the same elements: `extended` covers all of them.
EVERY_DAY = {
    "/",
    "/topics",
    "/topics/{topic}/records",
    "/groups/{group}",
    "/dead/{topic}",
    "/goto",
    "/access/acls",
}
ROUTES = [
    pytest.param(route, id=route.path, marks=() if route.cluster_path in EVERY_DAY else pytest.mark.extended)
    for route in PAGES
]


@pytest.mark.parametrize("route", ROUTES)
def test_tab_reaches_every_control_in_order_and_shows_where_it_is(visit: Visit, route: ConsoleRoute) -> None:
    visit.open(url_of(route))
    wanted = visit.page.evaluate(REACHED, CONTROLS)
    reached: list[str] = []
    for _ in range(2 * len(wanted)):
        visit.page.keyboard.press("Tab")
        element, is_shown = visit.page.evaluate(FOCUSED)
        if element.startswith("<body") and not reached:
            continue  # from the end of a dialog to its beginning
        if element.startswith("<body") or (reached and element == reached[0]):
            break
        assert is_shown, element
        reached.append(element)
    assert [each for each in reached if each in wanted] == wanted


def test_the_first_link_skips_the_navigation(visit: Visit) -> None:
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")
    assert visit.page.evaluate("() => document.activeElement.id") == "content"


def test_slash_selects_a_topic_by_a_part_of_its_name(visit: Visit) -> None:
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("order")
    visit.page.locator("#goto-found li").first.wait_for()
    visit.page.keyboard.press("ArrowDown")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**/topics/orders")


def test_escape_leaves_the_search_and_a_question_mark_shows_the_keys(visit: Visit) -> None:
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("?")
    assert visit.page.locator("#goto").input_value() == "?"
    visit.page.keyboard.press("Escape")
    visit.page.keyboard.press("?")
    visit.page.get_by_role("dialog").wait_for()
    assert visit.accessibility() == []
    visit.page.keyboard.press("Escape")
    visit.page.get_by_role("dialog").wait_for(state="hidden")


def test_j_and_k_move_through_rows_and_enter_opens_one(visit: Visit) -> None:
    visit.open(f"/c/{CLUSTER}/topics")
    rows = visit.page.locator("main tbody tr")
    rows.first.wait_for()
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        visit.page.keyboard.press(key)
        assert "here" in (rows.nth(at).get_attribute("class") or "").split()
    visit.page.keyboard.press("f")
    assert visit.page.evaluate("() => document.activeElement.tagName") == "INPUT"


def test_g_and_a_letter_go_to_pages(visit: Visit) -> None:
    """Three of them, one of which is of no cluster; test_app.py checks that letters differ."""
    for entry, route in route_table().entries:
        if entry.word in ("Topics", "Brokers", "Settings"):
            visit.open(GOTO)
            visit.page.keyboard.press("g")
            visit.page.keyboard.press(entry.letter)
            visit.page.wait_for_url(f"{visit.origin}{route.path.replace('{cluster}', CLUSTER)}*")


def test_the_theme_is_chosen_and_kept(visit: Visit) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = visit.page.evaluate(ground)
    visit.page.locator("#theme").focus()
    visit.page.keyboard.press("Enter")
    dark = visit.page.evaluate(ground)
    assert dark != light
    visit.open(GOTO)
    assert visit.page.evaluate(ground) == dark
