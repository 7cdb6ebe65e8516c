"""A database for each test."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.databases.postgres import PostgresServer


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """Name of a new database; its slots are deleted with it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    postgres.new_database(name)
    yield name
    postgres.drop(name)
