"""Properties of every page: two encodings, headers, bad input, errors with a remedy."""

from __future__ import annotations

import gzip
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from barnabas.services.console.pages import route_table
from barnabas.testing import EmbeddedBroker
from tests.services.console.web import RunningConsole, Web, running_console


def test_a_page_is_html_and_the_same_path_of_the_api_is_json(web: Web) -> None:
    page, answer = web.get("/goto", q="<b>"), web.api("/goto", q="<b>")

    assert page.headers["content-type"].startswith("text/html")
    assert "Nothing has &lt;b&gt; in its name" in page.text
    assert answer.json == {"q": "<b>", "found": [], "commands": []}


def test_every_answer_forbids_foreign_scripts_styles_and_frames(web: Web) -> None:
    for path in ("/goto", "/nothing-here"):
        policy = web.get(path).headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_static_files_are_compressed_and_cached_indefinitely(web: Web, console: RunningConsole) -> None:
    path = console.server.app.static.url("console.css")
    answer = web.ask("GET", path, **{"Accept-Encoding": "gzip"})

    assert "immutable" in answer.headers["cache-control"]
    assert b"color-scheme" in gzip.decompress(answer.body)


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/x/%2e%2e/app.py", "/static/"])
def test_nothing_but_static_files_is_served_as_such(web: Web, path: str) -> None:
    assert web.ask("GET", path).status == 404


def test_unknown_pages_and_clusters_get_404(web: Web) -> None:
    assert web.ask("GET", "/c/other/goto").status == 404
    assert "no cluster" in web.ask("GET", "/api/v1/c/other/goto").json["error"]
    assert web.ask("POST", web.base + "/goto", b"").status == 405


def test_parameters_that_are_not_text_are_rejected_with_a_message(web: Web) -> None:
    answer = web.ask("GET", f"/api/v1{web.base}/goto?q=%ff")

    assert answer.status == 400
    assert "UTF-8" in answer.json["error"]


def test_unreachable_cluster_is_reported_without_a_traceback(tmp_path: Path) -> None:
    with running_console("127.0.0.1:1", tmp_path) as away, away.web() as web:
        assert web.ask("GET", "/").status == 303
        assert web.get("/goto", q="x").status in (200, 502)


def test_serve_runs_a_console_next_to_the_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "barnabas", "serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--console", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = next(line for line in process.stdout if "console is ready" in line)
        page = urllib.request.urlopen(line.split()[-1] + "/c/default/goto?q=x", timeout=30).read()
        assert b"Barnabas" in page
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def test_every_route_declares_its_purpose_and_required_right(console_broker: EmbeddedBroker) -> None:
    for route in route_table().routes:
        assert str(route.right), route.path
        assert route.summary.endswith("."), route.path


def test_letters_of_the_navigation_are_different() -> None:
    letters = [entry.letter for entry, _ in route_table().entries]
    assert len(letters) == len(set(letters))
