"""One PostgreSQL for all tests here, and a database for each test."""

import uuid
from collections.abc import Iterator

import pytest

from tests.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """Its name; a slot belongs to a database and goes with it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    postgres.new_database(name)
    yield name
    postgres.drop(name)
