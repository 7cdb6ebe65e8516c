"""The pytest plugin: a broker for the whole run (`barnabas`) and a fresh topic for a test (`barnabas_topic`).

def test_orders(barnabas, barnabas_topic):
    producer = Producer({"bootstrap.servers": barnabas.bootstrap_servers})
    producer.produce(barnabas_topic, b"an order")

It loads in every pytest run where Barnabas is installed, so it imports nothing heavy by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing.embedded import EmbeddedBroker

MARKER = "barnabas_topic"
MAX_NAME = 200  # Kafka allows 249; the rest is for what makes the name unique


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(partitions=1, configs={{}}): how to create the topic of this test"
    )


@pytest.fixture(scope="session")
def barnabas_settings() -> dict[str, str]:
    """Server settings of the run's broker: define a fixture of this name in conftest.py to change them."""
    return {}


@pytest.fixture(scope="session")
def barnabas(barnabas_settings: dict[str, str]) -> Iterator[EmbeddedBroker]:
    """One broker for the whole run, started when the first test asks for it."""
    from barnabas.testing.embedded import EmbeddedBroker

    with EmbeddedBroker(barnabas_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def barnabas_registry(barnabas: EmbeddedBroker) -> Iterator[str]:
    """The address of a schema registry on that broker, such as http://127.0.0.1:34567."""
    from barnabas.client.security.parsing import parse_security
    from barnabas.testing.embedded_registry import EmbeddedRegistry

    registry = EmbeddedRegistry(barnabas.bootstrap_servers, parse_security(barnabas.clients.java))
    try:
        yield registry.url
    finally:
        registry.stop()


@pytest.fixture
def barnabas_topic(barnabas: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """The name of a new, empty topic, made for this test."""
    marker = request.node.get_closest_marker(MARKER)
    options = {} if marker is None else marker.kwargs
    return barnabas.create_topic(_topic_name(request.node.name, barnabas), **options)


def _topic_name(test_name: str, broker: EmbeddedBroker) -> str:
    """The test's name, so that logs and files say whose topic it is, and a number."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", test_name).strip("-.")[:MAX_NAME]
    return f"{readable or 'topic'}-{broker.next_number()}"
