"""A broker with an authorizer and a listener for users, for the access commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.support.sasl import sasl_settings


@pytest.fixture(scope="package")
def guarded() -> Iterator[EmbeddedBroker]:
    settings = sasl_settings(
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:root",
            "delegation.token.secret.key": "of all brokers",
        }
    )
    with EmbeddedBroker(settings=settings) as running:
        yield running


def port_of(broker: EmbeddedBroker, listener: str) -> int:
    return next(one.port for one in broker.broker.listeners if one.name == listener)


@pytest.fixture
def cli(guarded: EmbeddedBroker) -> Cli:
    """As the super user of the listener without authentication."""
    return Cli(f"127.0.0.1:{port_of(guarded, 'PLAINTEXT')}")
