"""`barnabas serve --tls auto --users`: creation of certificates and the first user."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.cli.serve import TlsOption, collect_properties
from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.security.parsing import parse_security
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.testing.client_settings import ClientSettings
from tests.support.brokers import BrokerProcess

SECONDS = 60


def test_the_listener_speaks_tls() -> None:
    properties = collect_properties(Path("d"), "0.0.0.0:9093", None, {}, TlsOption.AUTO)
    assert properties["listeners"] == "SSL://0.0.0.0:9093"
    assert properties["barnabas.tls.auto"] == "true"


def test_listeners_without_tls_are_refused() -> None:
    properties = collect_properties(Path("d"), "PLAINTEXT://127.0.0.1:9092", None, {}, TlsOption.AUTO)
    with pytest.raises(ConfigError, match="no listener uses TLS"):
        BrokerConfig.load(properties)


def test_clients_get_a_ca_to_trust_that_survives_a_restart(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", options=("--tls", "auto"))
    trusted = tmp_path / "data" / "tls" / "ca.pem"
    seen = []
    for _ in range(2):
        with broker:
            assert any(f"Clients trust {trusted}" in line for line in broker.lines)
            context = ssl.create_default_context(cafile=str(trusted))
            with (
                socket.create_connection(("127.0.0.1", broker.port), SECONDS) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as secured,
            ):
                seen.append(secured.getpeercert(binary_form=True))
    assert seen[0] == seen[1]
    assert not any("PRIVATE KEY" in line for line in broker.lines)


def test_the_first_user_is_printed_once_and_may_do_everything(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", options=("--tls", "auto", "--users"))
    trusted = tmp_path / "data" / "tls" / "ca.pem"
    with broker:
        (line,) = (each for each in broker.lines if each.startswith("The first user is "))
        name, password = line.removeprefix("The first user is ").strip().split(" with the password ")
        line_count = len(broker.lines)
    with broker:
        assert not any(password in each for each in broker.lines[line_count:])
        settings = ClientSettings(
            broker.bootstrap_servers, "SASL_SSL", trusted, name, password, "SCRAM-SHA-512"
        )
        create_topic(settings)
        with pytest.raises(ClientError, match="rejected this client"):
            create_topic(replace(settings, password="wrong"))


def create_topic(settings: ClientSettings) -> None:
    async def run() -> None:
        async with Client(settings.bootstrap_servers, security=parse_security(settings.java)) as client:
            await admin.create_topic(client, "orders", partitions=1, replication_factor=1, configs={})

    asyncio.run(asyncio.wait_for(run(), SECONDS))


def test_users_without_tls_log_in_in_the_clear_and_settings_win() -> None:
    settings = {"super.users": "User:root"}
    properties = collect_properties(Path("d"), "127.0.0.1:9092", None, settings, users=True)
    assert properties["listeners"] == "SASL_PLAINTEXT://127.0.0.1:9092"
    assert properties["super.users"] == "User:root"
    assert properties["sasl.enabled.mechanisms"] == "SCRAM-SHA-512,SCRAM-SHA-256"
