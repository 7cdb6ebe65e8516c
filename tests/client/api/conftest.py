"""Tests with `everywhere` run on Barnabas and Apache Kafka; `make extended` adds it to those with `bootstrap`."""

from __future__ import annotations

import pytest


def _servers(request: pytest.FixtureRequest) -> str:
    name = "embedded" if request.param == "barnabas" else "apache_kafka"
    servers: str = request.getfixturevalue(name).bootstrap_servers
    return servers


@pytest.fixture(params=["barnabas", pytest.param("apache-kafka", marks=pytest.mark.java)])
def everywhere(request: pytest.FixtureRequest) -> str:
    return _servers(request)


@pytest.fixture(
    params=["barnabas", pytest.param("apache-kafka", marks=[pytest.mark.java, pytest.mark.extended])]
)
def bootstrap(request: pytest.FixtureRequest) -> str:
    return _servers(request)
