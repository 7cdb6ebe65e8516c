"""A broker with authenticated clients, and their settings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.cluster.deltas import Delta, ScramCredentialChanged
from barnabas.cluster.image import MetadataImage
from barnabas.security.authn.credentials import ScramMechanism
from barnabas.security.authn.scram import new_credential
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import until

USER, PASSWORD = "alice", "al=ice; her \\ 'secret'"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_JAAS = "org.apache.kafka.common.security"
_QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
PLAIN_USERS = f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{_QUOTED}" user_bob="bobs-password";'


def plain_users(passwords: Mapping[str, str]) -> str:
    """A JAAS text with these users of PLAIN."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    return f"{_JAAS}.plain.PlainLoginModule required {users};"


def sasl_settings(mechanisms: tuple[str, ...] = MECHANISMS, /, **others: str) -> dict[str, str]:
    """For a listener SASL_PLAINTEXT, and one without authentication for tests."""
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_USERS,
        **others,
    }


def java_login(mechanism: str, username: str = USER, password: str = PASSWORD) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{_JAAS}.{module} required username="{username}" password="{quoted}";',
    }


def login(mechanism: str, username: str = USER, password: str = PASSWORD) -> dict[str, str]:
    """librdkafka's names, which the client here knows as well."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": username,
        "sasl.password": password,
    }


def add_user(running: EmbeddedBroker, name: str, password: str) -> None:
    """As AlterUserScramCredentials does it."""
    added: list[Delta] = [
        ScramCredentialChanged(name, mechanism, new_credential(mechanism, password))
        for mechanism in ScramMechanism
    ]
    commit(running, added)


def commit(running: EmbeddedBroker, deltas: list[Delta]) -> None:
    broker, thread = running.broker, running._in_thread()

    def decide(image: MetadataImage) -> tuple[list[Delta], None]:
        return deltas, None

    thread.run(broker.controller.submit(decide), 60)
    until(lambda: broker.image.offset >= broker.controller.image.offset)


def until_logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """A client gets its failure a moment before the broker logs it."""
    until(lambda: text in caplog.text, text)


def properties(settings: Mapping[str, str]) -> str:
    """A file for Kafka's tools."""
    return "".join(f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items())
