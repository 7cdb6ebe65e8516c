from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.registry import Rest


@pytest.fixture(scope="module")
def registry_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def rest(registry_broker: EmbeddedBroker) -> Iterator[Rest]:
    with Rest(registry_broker.registry_url) as client:
        yield client
