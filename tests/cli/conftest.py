"""One broker for all tests of the command line."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def cli(broker: EmbeddedBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


@pytest.fixture
def new_name() -> Callable[[], str]:
    return lambda: f"cli-{next(_numbers)}"


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    return broker.create_topic(f"cli-{next(_numbers)}", partitions=2)
