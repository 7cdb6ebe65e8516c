"""Startup warnings about unauthenticated listeners."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from barnabas.broker.broker import Broker
from barnabas.config.broker import BrokerConfig
from barnabas.network.exposure import warn_if_exposed
from barnabas.network.listener import Listener
from barnabas.testing.in_memory_cluster import MemoryCluster

TWO = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://0.0.0.0:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
ONE = {"listeners": "PLAINTEXT://0.0.0.0:0"}


def warnings_of(caplog: pytest.LogCaptureFixture, *listeners: Listener) -> list[str]:
    for listener in listeners:
        listener.open()
    try:
        warn_if_exposed(listeners)
    finally:
        for listener in listeners:
            listener.close()
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("host", ["", "0.0.0.0"])
def test_a_listener_that_other_machines_reach_is_warned_of(
    caplog: pytest.LogCaptureFixture, host: str
) -> None:
    (warning,) = warnings_of(caplog, Listener("PLAINTEXT", host, 0))
    assert "does not authenticate" in warning
    assert "listeners=PLAINTEXT://127.0.0.1:" in warning


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1.2.3", "::1"])
def test_loopback_is_not_warned_of(caplog: pytest.LogCaptureFixture, host: str) -> None:
    assert warnings_of(caplog, Listener("PLAINTEXT", host, 0, serves_brokers=True)) == []


def test_listener_with_authentication_is_not_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    secured = Listener("SECURE", "0.0.0.0", 0, security_protocol="SASL_SSL", serves_brokers=True)
    assert warnings_of(caplog, secured) == []


@pytest.mark.parametrize(("settings", "is_shared"), [(ONE, True), (TWO, False)])
def test_cluster_with_one_listener_is_warned_that_clients_can_act_as_brokers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, str], is_shared: bool
) -> None:
    async def start_twice() -> None:
        for _ in range(2):
            session = MemoryCluster(1.0).connect(1)
            config = BrokerConfig.load({"node.id": "1", "log.dirs": str(tmp_path), **settings})
            broker = Broker(config, cluster=session.connection)
            await broker.start()
            await broker.stop()

    asyncio.run(start_twice())
    notified = [record.getMessage() for record in caplog.records if "act as a broker" in record.getMessage()]
    assert len(notified) == (2 if is_shared else 0)
