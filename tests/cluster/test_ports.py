"""Ports for those who need seconds to start."""

from __future__ import annotations

import socket

import pytest

from barnabas.cluster import ports
from barnabas.cluster.ports import lasting_port


def test_nobody_listens_on_the_port_and_no_connection_will_get_it() -> None:
    port = lasting_port()
    assert port < 32_768
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", port))


def test_a_port_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free = lasting_port()
        offers = iter([taken.getsockname()[1], free])
        monkeypatch.setattr(ports._random, "choice", lambda _: next(offers))
        assert lasting_port() == free


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        lasting_port("192.0.2.1")
