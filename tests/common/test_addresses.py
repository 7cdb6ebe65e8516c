"""Addresses that are unreachable from other machines."""

from __future__ import annotations

import pytest

from barnabas.common.addresses import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1", "::1%lo"])
def test_loopback_addresses(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "*", "0.0.0.0", "::", "10.0.0.5", "fe80::1%eth0", "127.0.0.1.example.com"]
)
def test_other_addresses_and_names(host: str) -> None:
    assert not is_loopback(host)
