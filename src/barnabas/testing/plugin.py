"""Pytest plugin: a broker for the test run (`barnabas`) and a new topic for each test (`barnabas_topic`).

def test_orders(barnabas, barnabas_topic):
    producer = Producer({"bootstrap.servers": barnabas.bootstrap_servers})
    producer.produce(barnabas_topic, b"an order")

It is loaded in every pytest run where Barnabas is installed, so it imports heavy modules on use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing.embedded import EmbeddedBroker

MARKER = "barnabas_topic"
MAX_NAME = 200  # Kafka allows 249; leaves room for a unique suffix


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(partitions=1, configs={{}}): how to create the topic of this test"
    )


@pytest.fixture(scope="session")
def barnabas_settings() -> dict[str, str]:
    """Server settings of the broker; override this fixture in conftest.py to change them."""
    return {}


@pytest.fixture(scope="session")
def barnabas(barnabas_settings: dict[str, str]) -> Iterator[EmbeddedBroker]:
    """Broker for the test run, started on first use."""
    from barnabas.testing.embedded import EmbeddedBroker

    with EmbeddedBroker(barnabas_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def barnabas_registry(barnabas: EmbeddedBroker) -> Iterator[str]:
    """URL of a schema registry for that broker, such as http://127.0.0.1:34567."""
    from barnabas.client.security import parse_security
    from barnabas.testing.embedded_registry import EmbeddedRegistry

    registry = EmbeddedRegistry(barnabas.bootstrap_servers, parse_security(barnabas.clients.java))
    try:
        yield registry.url
    finally:
        registry.stop()


@pytest.fixture
def barnabas_topic(barnabas: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """Name of a new, empty topic for this test."""
    marker = request.node.get_closest_marker(MARKER)
    options = {} if marker is None else marker.kwargs
    return barnabas.create_topic(_topic_name(request.node.name, barnabas), **options)


def _topic_name(test_name: str, broker: EmbeddedBroker) -> str:
    """Return the test's name, for recognition in logs and files, with a unique number."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", test_name).strip("-.")[:MAX_NAME]
    return f"{readable or 'topic'}-{broker.next_number()}"
