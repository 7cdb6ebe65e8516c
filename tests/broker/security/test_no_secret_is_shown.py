"""Secrets of every kind, valid and rejected, never appear in any output.

Each of them has the word MARK in it. Whatever the broker and the commands write is looked through for it: the log with
its tracebacks, error texts, answers about settings, JSON, metrics, the audit log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.security.parsing import parse_security
from barnabas.common.safe_logging import line_limit
from barnabas.controller import scram_credentials
from barnabas.metrics.text import render
from barnabas.protocol.messages import sasl, tokens
from barnabas.protocol.messages.replication import EnvelopeRequest, EnvelopeResponse
from barnabas.security.authn.sasl.plain import PlainExchange
from barnabas.security.authn.sasl.scram import ScramExchange
from barnabas.testing import EmbeddedBroker
from tests.support.certificates import Authority
from tests.support.cli import Cli

MARK = "sw0rdfish"
SECONDS = 60
_JAAS = "org.apache.kafka.common.security"


class Running(NamedTuple):
    broker: EmbeddedBroker
    ca_file: Path
    audit: Path

    def client(self, mechanism: str, password: str) -> dict[str, str]:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": str(self.ca_file),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{_JAAS}.{module} required username="alice" password="{password}";',
        }

    def outcome(self, mechanism: str, password: str) -> str:
        """Result of a login for a client."""

        async def ask() -> None:
            security = parse_security(self.client(mechanism, password))
            async with Client(self.broker.bootstrap_servers, security=security) as client:
                await client.all_topics()

        try:
            asyncio.run(asyncio.wait_for(ask(), SECONDS))
        except ClientError as error:
            return f"{error!r} {error.__cause__!r}"
        return "logged in"

    @property
    def cli(self) -> Cli:
        return Cli(f"127.0.0.1:{self.broker.broker.listeners[1].port}")


@pytest.fixture
def running(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    authority = Authority()
    store, ca_file = tmp_path / "broker.p12", tmp_path / "ca.pem"
    store.write_bytes(authority.sign("localhost", "127.0.0.1").store(f"{MARK}-store"))
    ca_file.write_text(authority.pem)
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": f"{MARK}-store",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{_JAAS}.plain.PlainLoginModule required user_alice="{MARK}-plain";'
        ),
        "delegation.token.secret.key": f"{MARK}-tokens",
        "barnabas.audit.file": str(tmp_path / "audit.log"),
        "barnabas.audit.events": "denied,admin,logins,allowed",
    }
    line_limit.forget()  # of the tests before
    with caplog.at_level(logging.DEBUG), EmbeddedBroker(settings) as broker:
        yield Running(broker, ca_file, tmp_path / "audit.log")


def test_secrets_that_are_used_refused_or_in_the_way_of_a_mistake_are_not_written(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    password_file = tmp_path / "password"
    password_file.write_text(f"{MARK}-scram\n")
    created = running.cli("users", "create", "alice", "--password-file", str(password_file), "-o", "json")
    seen += [created.out, created.err]
    for mechanism, right in (("PLAIN", f"{MARK}-plain"), ("SCRAM-SHA-512", f"{MARK}-scram")):
        assert running.outcome(mechanism, right) == "logged in"
        refused = running.outcome(mechanism, f"{MARK}-wrong")
        assert "rejected this client" in refused
        seen.append(refused)
    for arguments in (
        ("configs", "describe", "broker", "1", "--all", "-o", "json"),
        ("users", "list", "-o", "json"),
    ):
        ended = running.cli.ok(*arguments)
        seen += [ended.out, ended.err]
    assert "delegation.token.secret.key" in "".join(seen)
    # Mistakes of the broker, where it has a secret in its hands: they leave a traceback.
    for part, name in (
        (PlainExchange, "step"),
        (ScramExchange, "step"),
        (scram_credentials, "alter_credentials"),
    ):
        monkeypatch.setattr(part, name, _mistake)
    seen += [running.outcome("PLAIN", f"{MARK}-plain"), running.outcome("SCRAM-SHA-512", f"{MARK}-scram")]
    failed = running.cli("users", "password", "alice", "--password-file", str(password_file))
    assert failed.code != 0
    seen += [failed.out, failed.err]
    running.broker.stop()
    seen += [caplog.text, running.audit.read_text()]
    assert caplog.text.count("a mistake of the broker") >= 2
    assert MARK not in "".join(seen)


def _mistake(*_: object) -> None:
    raise RuntimeError("a mistake of the broker")


def test_metrics_have_no_secret(running: Running) -> None:
    running.outcome("PLAIN", f"{MARK}-plain")
    running.outcome("PLAIN", f"{MARK}-wrong")
    assert MARK not in render(running.broker.broker.metrics)


@pytest.mark.parametrize(
    "message",
    [
        sasl.SaslAuthenticateRequest(MARK.encode()),
        sasl.SaslAuthenticateResponse(auth_bytes=MARK.encode()),
        sasl.AlterUserScramCredentialsRequest(
            [], [sasl.ScramCredentialUpsertion("a", 1, 4096, b"salt", MARK.encode())]
        ),
        tokens.CreateDelegationTokenResponse(hmac=MARK.encode()),
        tokens.RenewDelegationTokenRequest(MARK.encode()),
        tokens.ExpireDelegationTokenRequest(MARK.encode()),
        tokens.DescribeDelegationTokenResponse(tokens=[tokens.DescribedDelegationToken(hmac=MARK.encode())]),
        EnvelopeRequest(MARK.encode()),
        EnvelopeResponse(MARK.encode()),
    ],
    ids=lambda message: type(message).__name__,
)
def test_printed_message_hides_its_secrets(message: object) -> None:
    assert MARK not in repr(message)
    assert "<hidden>" in repr(message)
