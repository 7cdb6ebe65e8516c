"""The example of the Python client bills every order once."""

from __future__ import annotations

import pytest

from barnabas.testing import EmbeddedBroker
from examples import python_client


def test_the_example_bills_every_order(capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker() as broker:
        python_client.main(broker.bootstrap_servers)
    assert capsys.readouterr().out == "billed 100 orders\ninvoices: 100\n"
