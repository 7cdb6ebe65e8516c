"""Administration pages on Barnabas and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing import EmbeddedBroker
from tests.services.console.pages.limited import Limited, OnlyOne
from tests.services.console.web import RunningConsole, Web, running_console
from tests.support.kafka.broker import ApacheKafka

# So that a test can leave a transaction behind that no coordinator knows.
UNVERIFIED = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module", params=["barnabas", pytest.param("apache", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "barnabas":
        with EmbeddedBroker(UNVERIFIED) as broker:
            yield broker.bootstrap_servers
    else:
        with ApacheKafka(tmp_path_factory.mktemp("kafka"), heap="384m", settings=UNVERIFIED) as kafka:
            yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def either_console(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_console(bootstrap, tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def either(either_console: RunningConsole) -> Iterator[Web]:
    """The pages of a console of either broker."""
    with either_console.web() as client:
        yield client


@pytest.fixture
def user(console: RunningConsole) -> Iterator[Limited]:
    gate, limited = console.server.app.gate, Limited()
    console.server.app.gate = OnlyOne(limited)
    yield limited
    console.server.app.gate = gate
