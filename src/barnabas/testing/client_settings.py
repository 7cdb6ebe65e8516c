"""Settings for clients of an embedded broker, in the form of the common client libraries."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True, repr=False)
class ClientSettings:
    """`Producer(broker.clients.confluent)`, `KafkaProducer(**broker.clients.kafka_python)`, and so on."""

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    ca_file: Path | None = None
    user: str = ""  # empty without SASL
    password: str = ""
    mechanism: str = "PLAIN"
    key_file: Path | None = None  # the client's certificate and key, as PEM

    @property
    def confluent(self) -> dict[str, Any]:
        """Settings for confluent-kafka and other clients based on librdkafka."""
        trust = {"ssl.ca.location": str(self.ca_file)} if self.ca_file else {}
        if self.key_file:
            trust |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(self.key_file))
        login = {
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.protocol,
            **trust,
            **(login if self.user else {}),
        }

    @property
    def kafka_python(self) -> dict[str, Any]:
        trust = {"ssl_cafile": str(self.ca_file)} if self.ca_file else {}
        if self.key_file:
            trust |= dict.fromkeys(("ssl_certfile", "ssl_keyfile"), str(self.key_file))
        return {**self._of_python, **trust}

    @property
    def aiokafka(self) -> dict[str, Any]:
        if not self.ca_file:
            return self._of_python
        context = ssl.create_default_context(cafile=str(self.ca_file))
        if self.key_file:
            context.load_cert_chain(self.key_file)
        return {**self._of_python, "ssl_context": context}

    @property
    def _of_python(self) -> dict[str, Any]:
        login = {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.protocol,
            **(login if self.user else {}),
        }

    @property
    def java(self) -> dict[str, str]:
        """Settings for Kafka's Java clients and tools, Spark (with the prefix `kafka.`), and Barnabas' client."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.protocol}
        if self.ca_file:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        if self.key_file:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.key_file)}
        if self.user:
            settings |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._login}
        return settings

    @property
    def _login(self) -> str:
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        return f"{_MODULES}.{module} required username={quoted(self.user)} password={quoted(self.password)};"

    def write_properties(self, path: Path) -> Path:
        """Write a file for `--command-config` of Kafka's tools and `barnabas`, readable by its owner only."""
        path.touch(mode=0o600)
        lines = [f"{name}={_escaped(value)}\n" for name, value in self.java.items()]
        path.write_text("".join(lines))
        return path


def quoted(text: str) -> str:
    """Quote a value for a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def plain_users(users: dict[str, str]) -> str:
    """Return the broker's `sasl.jaas.config` for PLAIN."""
    listed = " ".join(f"user_{name}={quoted(password)}" for name, password in users.items())
    return f"{_MODULES}.plain.PlainLoginModule required {listed};"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
