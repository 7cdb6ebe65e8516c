"""One PostgreSQL and one broker for all tests of connectors."""

from collections.abc import Iterator

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.databases.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running
