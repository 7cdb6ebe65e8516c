"""A source and a target, each Barnabas or Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing import EmbeddedBroker
from tests.client.conftest import apache_kafka, new_name

__all__ = ["apache_kafka", "new_name"]


@pytest.fixture(scope="session")
def source() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def target() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker
