"""Searching, opening and following records in a browser, most of it without a mouse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.services.console.browser.hostile import HOSTILE, ORDERS
from tests.services.console.browser.visits import Visit, visiting
from tests.services.console.web import CLUSTER, RunningConsole

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TIMEOUT_MS = 60_000
ENDED = re.compile("Everything was searched|There is more")


@pytest.fixture
def visit(chromium: Browser, hostile_console: RunningConsole) -> Iterator[Visit]:
    with visiting(chromium, hostile_console.url) as visit:
        visit.page.set_default_timeout(TIMEOUT_MS)
        yield visit


def _open(visit: Visit, topic: str, rest: str = "") -> None:
    visit.open(f"/c/{CLUSTER}/topics/{topic}/records{rest}")
    visit.page.locator("#state", has_text=ENDED).wait_for()


def test_search_fills_the_page_and_continues_where_it_stopped(visit: Visit) -> None:
    _open(visit, ORDERS, "?find=Oslo&limit=60")
    rows = visit.page.locator("#rows tr")
    assert rows.count() == 60
    assert visit.page.locator("#timeline").is_visible()  # of the results, by time
    assert visit.page.locator("#timeline g rect").count() > 1
    visit.page.locator("#continue").click()
    visit.page.locator("#state", has_text="Everything was searched").wait_for()
    assert rows.count() == 100
    assert visit.errors == []


def test_the_search_bar_makes_an_address_that_can_be_sent(visit: Visit) -> None:
    _open(visit, ORDERS)
    visit.page.keyboard.press("f")
    visit.page.keyboard.type('"id": 7,')
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**find=*")
    visit.page.locator("#state", has_text="Everything was searched").wait_for()
    assert visit.page.locator("#rows tr").count() == 1
    assert "customer-7" in visit.page.locator("#rows").inner_text()


def test_a_record_is_opened_with_the_keyboard_and_shown_as_a_tree(visit: Visit) -> None:
    _open(visit, ORDERS, "?where=value.id+%3D%3D+42")
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("Enter")
    pane = visit.page.locator("#pane")
    pane.locator(".tree").wait_for()
    assert visit.page.evaluate("() => document.activeElement.id") == "pane"
    assert '"amount": 23.5' in pane.inner_text()
    assert visit.accessibility() == []
    pane.locator("h2 a").click()
    visit.page.locator("h1", has_text="offset").wait_for()
    assert visit.page.locator(".tree").count() == 1


def test_search_errors_are_shown_next_to_the_field(visit: Visit) -> None:
    visit.open(f"/c/{CLUSTER}/topics/{ORDERS}/records?where=value.")
    visit.page.locator("#state .bad").wait_for()
    assert visit.page.locator("#state").inner_text().startswith("where: ")


def test_hostile_records_are_text_in_rows_and_pane(visit: Visit) -> None:
    _open(visit, HOSTILE)
    links = visit.page.locator("#rows a")
    assert links.count() > 10
    for number in range(0, links.count(), 3):
        links.nth(number).click()
        visit.page.locator("#pane h2", has_text="offset").wait_for()
        visit.settle()
    assert visit.injected == {}
    assert visit.violations == []
    assert visit.errors == []
    assert visit.accessibility() == []


def test_a_search_is_saved_in_the_browser_and_found_again(visit: Visit) -> None:
    _open(visit, ORDERS, "?find=Lima")
    visit.page.locator("#saved summary").click()
    visit.page.fill("#saved-name", "<b>Lima</b>")
    visit.page.locator("#save").click()
    _open(visit, ORDERS)
    visit.page.locator("#saved summary").click()
    visit.page.locator("#saved a", has_text="<b>Lima</b>").click()
    visit.page.wait_for_url("**find=Lima**")


def test_a_tail_shows_new_records_and_rests_while_it_is_paused(
    visit: Visit, hostile_console: RunningConsole
) -> None:
    visit.open(f"/c/{CLUSTER}/topics/null/tail")
    visit.page.locator("#state", has_text="Live").wait_for()
    with hostile_console.web() as web:
        web.change("/topics/null/produce", value="first")
        visit.page.locator("#rows tr", has_text="first").wait_for()
        visit.page.locator("#pause").click()
        visit.page.locator("#state", has_text="Paused").wait_for()
        web.change("/topics/null/produce", value="second")
        visit.page.locator("#pause").click()
        visit.page.locator("#state", has_text="skipped 1").wait_for()
    assert visit.page.locator("#rows tr").count() == 1


def test_the_report_draws_its_numbers(visit: Visit) -> None:
    visit.open(f"/c/{CLUSTER}/topics/{ORDERS}/chart")
    visit.page.locator("figure.curve canvas").first.wait_for()
    assert visit.page.locator("figure.curve").count() == 2
    assert visit.page.locator(".wide tbody tr").count() == 20
    assert visit.accessibility() == []
    assert (visit.errors, visit.violations) == ([], [])
