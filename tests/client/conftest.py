"""Tests with the fixture `bootstrap` run against Barnabas and Apache Kafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka

# Members learn of changes in a heartbeat: frequent here, instead of every five seconds.
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
}
_numbers = itertools.count()


@pytest.fixture(scope="session")
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(folder, heap="256m", settings=SETTINGS) as kafka:
        yield kafka


@pytest.fixture(params=["barnabas", pytest.param("apache-kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    name = "embedded" if request.param == "barnabas" else "apache_kafka"
    servers: str = request.getfixturevalue(name).bootstrap_servers
    return servers


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Names that no other test uses."""
    return lambda: f"topic-{next(_numbers)}"
