"""The frame of every page: the selected cluster, and navigation by rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.services.console.frame import initials
from barnabas.services.console.settings import ClusterSettings
from barnabas.testing import EmbeddedBroker
from tests.services.console.pages.limited import Limited
from tests.services.console.web import Web, running_console


@pytest.mark.parametrize("path", ["/settings", "/audit", "/api?q=groups", "/c/default/groups/none"])
def test_pages_of_no_cluster_and_errors_have_the_frame_too(web: Web, path: str) -> None:
    page = web.ask("GET", path).text

    assert '<nav class="main" aria-label="Pages">' in page
    assert 'href="/c/default/topics"' in page
    assert "<strong>default</strong>" in page


def test_the_cluster_shown_last_is_that_of_pages_of_no_cluster(
    console_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    names = ("first", "se;cond")
    clusters = tuple(ClusterSettings(name, console_broker.bootstrap_servers) for name in names)
    servers = console_broker.bootstrap_servers
    with running_console(servers, tmp_path, clusters=clusters) as console, console.web() as web:
        seen = web.ask("GET", "/c/se%3Bcond/topics")
        cookie = seen.headers["set-cookie"].partition(";")[0]
        again = web.ask("GET", "/settings", Cookie=cookie)
        fresh = web.ask("GET", "/settings")

    assert 'data-base="/c/se%3Bcond"' in again.text
    assert 'data-base="/c/first"' in fresh.text
    assert "HttpOnly" in seen.headers["set-cookie"]


def test_a_page_that_the_user_may_not_see_is_left_out_and_so_are_counts(web: Web, user: Limited) -> None:
    page = web.get("/topics").text

    assert 'data-letter="t"' in page
    assert 'data-letter="b"' not in page
    assert '<span class="count">' not in page


def test_initials_are_two_letters_of_the_name() -> None:
    assert [initials(name) for name in ("anna.berg", "Anna Berg", "franz", "<b>", "…")] == [
        "AB",
        "AB",
        "FR",
        "B",
        "?",
    ]
