"""Lists and charts in a browser: live updates, favourites, moving offsets."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.services.console.browser.visits import Visit, visiting
from tests.services.console.web import CLUSTER, RunningConsole

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TIMEOUT_MS = 30_000


@pytest.fixture
def visit(chromium: Browser, hostile_console: RunningConsole) -> Iterator[Visit]:
    with visiting(chromium, hostile_console.url) as visit:
        visit.page.set_default_timeout(TIMEOUT_MS)
        yield visit


def bootstrap_of(console: RunningConsole) -> str:
    return console.server.clusters[CLUSTER].settings.bootstrap


def fill(console: RunningConsole, topic: str, group: str) -> None:
    """Ten records, of which the group has done four. In a thread: this one has a loop that runs."""

    def work() -> None:
        settings = {"bootstrap.servers": bootstrap_of(console)}
        producer = Producer(settings)
        for _ in range(10):
            producer.produce(topic, b"x", partition=0)
        producer.flush()
        consumer = Consumer({**settings, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        consumer.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def refresh(console: RunningConsole) -> None:
    console.run(console.server.clusters[CLUSTER].sampler.refresh())


def test_a_list_updates_itself_and_curves_are_drawn(visit: Visit, hostile_console: RunningConsole) -> None:
    visit.open(f"/c/{CLUSTER}/groups?q=late-comer")
    assert visit.page.get_by_text("No group has late-comer in its name").is_visible()
    fill(hostile_console, "late-topic", "late-comer")
    refresh(hostile_console)
    link = visit.page.get_by_role("link", name="late-comer")
    link.wait_for()
    refresh(hostile_console)
    link.click()
    visit.page.locator("figure.curve canvas").first.wait_for()

    assert visit.page.locator("h1").inner_text() == "late-comer"
    assert visit.violations == []


def test_offsets_are_moved_after_a_preview(visit: Visit, hostile_console: RunningConsole) -> None:
    fill(hostile_console, "moved-topic", "moved")
    refresh(hostile_console)
    visit.open(f"/c/{CLUSTER}/groups/moved/offsets")
    visit.page.get_by_label("Set offsets to").select_option("shift")
    visit.page.get_by_label("Time, offset, records or group").fill("-3")
    visit.page.get_by_role("button", name="Preview").click()
    row = visit.page.locator("main tbody tr")
    row.wait_for()
    assert re.sub(r"\s+", " ", row.inner_text()).startswith("moved-topic 0 4 1 -3")
    visit.page.get_by_role("button", name="Apply").click()

    visit.page.get_by_text("moved resumes at the new offsets").wait_for()


def test_favourites_are_kept_and_named_in_the_address(visit: Visit, hostile_console: RunningConsole) -> None:
    fill(hostile_console, "dear-topic", "dear")
    refresh(hostile_console)
    visit.open(f"/c/{CLUSTER}/topics")
    assert not visit.page.get_by_role("link", name="Favourites").is_visible()
    visit.page.get_by_role("button", name="Favourite dear-topic").click()
    visit.open(f"/c/{CLUSTER}/topics")
    visit.page.get_by_role("link", name="Favourites").click()
    visit.page.wait_for_url("**/topics?name=dear-topic")

    assert visit.page.locator("main tbody tr").count() == 1
    assert (
        visit.page.get_by_role("button", name="Favourite dear-topic").get_attribute("aria-pressed") == "true"
    )
