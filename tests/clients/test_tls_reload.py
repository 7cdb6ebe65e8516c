"""Certificates replaced on a running broker: by file, by kafka-configs, and by age."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from cryptography import x509

from barnabas.broker.security.tls_reload import TlsReload
from barnabas.testing import EmbeddedBroker
from tests.support.certificates import Authority, Signed
from tests.support.waiting import until

SECONDS = 60
DAY = 86400.0


class Served(NamedTuple):
    broker: EmbeddedBroker
    authority: Authority
    store: Path

    def replace(self, signed: Signed) -> None:
        """As certbot does it: another file under the same name."""
        fresh = self.store.with_suffix(".new")
        fresh.write_text(signed.certificate_pem + signed.key_pem())
        fresh.replace(self.store)

    def look(self) -> None:
        """Make the broker check for changes, which it does every ten seconds."""
        broker = self.broker.broker
        reload = broker.sockets.tls.reload
        assert isinstance(reload, TlsReload)
        asyncio.run_coroutine_threadsafe(reload.look(), broker.loop).result(SECONDS)

    def shown(self) -> int:
        """The serial number of the certificate that a new connection sees."""
        context = ssl.create_default_context(cadata=self.authority.pem)
        with (
            socket.create_connection(("127.0.0.1", self.broker.port), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            encoded = secured.getpeercert(binary_form=True)
        assert encoded is not None
        return x509.load_der_x509_certificate(encoded).serial_number


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    authority, store = Authority(), tmp_path / "broker.pem"
    first = authority.sign("localhost", "127.0.0.1")
    store.write_text(first.certificate_pem + first.key_pem())
    (tmp_path / "ca.pem").write_text(authority.pem)
    with EmbeddedBroker({"listener.name.ssl.ssl.keystore.location": str(store)}, security="SSL") as broker:
        yield Served(broker, authority, store)


def test_a_new_file_is_for_new_connections_and_open_ones_stay(served: Served) -> None:
    context = ssl.create_default_context(cadata=served.authority.pem)
    with (
        socket.create_connection(("127.0.0.1", served.broker.port), SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as kept,
    ):
        second = served.authority.sign("localhost", "127.0.0.1")
        served.replace(second)
        served.look()
        assert served.shown() == second.certificate.serial_number
        kept.sendall(bytes.fromhex("0000000a0012000000000001ffff"))  # ApiVersions 0
        assert len(kept.recv(4)) == 4


def test_unusable_file_changes_nothing_and_is_reported_once(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    before = served.shown()
    served.store.write_text("damaged")
    for _ in range(3):
        served.look()
    assert served.shown() == before
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(messages) == 1
    assert messages[0].startswith(
        "The new TLS settings are invalid; the previous ones remain in use: Listener SSL: ssl.keystore.location"
    )


def test_a_certificate_for_another_host_is_not_taken_over(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    before = served.shown()
    served.replace(served.authority.sign("localhost"))
    served.look()
    assert served.shown() == before
    assert "the new certificate does not cover 127.0.0.1" in caplog.text
    served.replace(served.authority.sign("other", "127.0.0.1"))
    served.look()
    assert "Set ssl.allow.dn.changes=true" in caplog.text


def test_kafka_configs_names_another_key_store(served: Served, tmp_path: Path) -> None:
    with pytest.raises(KafkaException, match=r"names /missing.pem, which cannot be read"):
        set_key_store(served, tmp_path, "/missing.pem")
    second, moved = served.authority.sign("localhost", "127.0.0.1"), tmp_path / "moved.pem"
    moved.write_text(second.certificate_pem + second.key_pem())
    set_key_store(served, tmp_path, str(moved))
    until(lambda: served.shown() == second.certificate.serial_number)


def set_key_store(served: Served, tmp_path: Path, path: str) -> None:
    trust = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
    admin = AdminClient({"bootstrap.servers": served.broker.bootstrap_servers, **trust})
    name = "listener.name.ssl.ssl.keystore.location"
    entry = ConfigEntry(name, path, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(SECONDS)


@pytest.mark.parametrize(
    ("days", "words"),
    [(-100.0, ""), (5.0, "its certificate expires in 25 days"), (40.0, "its certificate has expired")],
)
def test_a_certificate_that_expires_soon_is_warned_of_once_a_day(
    served: Served, caplog: pytest.LogCaptureFixture, days: float, words: str
) -> None:
    """It is valid for 30 days."""
    now = time.time() + days * DAY

    async def run() -> None:
        reload = TlsReload(served.broker.broker.sockets.tls, served.broker.broker.config, lambda: now)
        await reload.look()
        await reload.look()

    caplog.clear()
    asyncio.run(run())
    warned = [record.getMessage() for record in caplog.records if "its certificate" in record.getMessage()]
    assert len(warned) == (1 if words else 0)
    assert all(words in text for text in warned)
    (listener,) = served.broker.broker.sockets.tls
    metric = "barnabas_tls_certificate_expiry_seconds{listener=SSL}"
    assert served.broker.broker.metrics.snapshot()[metric] == listener.certificate.expires
