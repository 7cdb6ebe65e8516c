"""One Chromium for the tests of this folder, a broker with hostile data, and a console on it.

`--screenshots` writes the pictures of docs/images/console.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.client.schemas import RegistryAccount
from barnabas.services.console.settings import ClusterSettings
from tests.services.console.browser.hostile import HOSTILE, hostile_broker
from tests.services.console.web import CLUSTER, RunningConsole, running_console
from tests.support.programs import PROJECT_ROOT, find, missing
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

AXE = PROJECT_ROOT / ".cache" / "axe" / "node_modules" / "axe-core" / "axe.min.js"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", action="store_true", help="write docs/images/console/*.webp")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Screenshots are created only on request."""
    is_asked = config.getoption("--screenshots", default=False)
    return True if collection_path.name == "test_screenshots.py" and not is_asked else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Page weight and first paint, if only these tests are run."""
    passed = terminalreporter.stats.get("passed", [])
    figures = [value for report in passed for name, value in report.user_properties if name == "page"]
    for path, size, paint in sorted(figures, key=lambda figure: figure[1]):
        terminalreporter.write_line(f"{size:7,} bytes, first paint after {paint:4.0f} ms: {path}")


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """For these tests only: while it lives, the thread has a loop that runs, and `asyncio.run` does not work."""
    (program,) = find("chromium")
    if not AXE.exists():
        missing("no axe-core here")
    from playwright.sync_api import sync_playwright

    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*root, "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="package")
def hostile_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder: Path = tmp_path_factory.mktemp("console")
    with hostile_broker() as broker:
        registry = RegistryAccount.at(broker.registry_url)
        cluster = ClusterSettings(CLUSTER, broker.bootstrap_servers, logs=(HOSTILE,), registry=registry)
        with running_console(broker.bootstrap_servers, folder, clusters=(cluster,)) as console:
            with console.web() as web:
                until(lambda: web.api("/logs").json["total"], "log lines are kept")
            yield console
