"""One embedded broker for all tests of the data source and the sink. The Spark session: tests/conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing import EmbeddedBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running
