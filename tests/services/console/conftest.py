from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing import EmbeddedBroker
from tests.services.console.web import RunningConsole, Web, running_console


@pytest.fixture(scope="module")
def console_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def console(
    console_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    with running_console(console_broker.bootstrap_servers, tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def web(console: RunningConsole) -> Iterator[Web]:
    with console.web() as client:
        yield client
