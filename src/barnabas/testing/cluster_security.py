"""Security of an embedded cluster: certificates, a user for the brokers, and ZooKeeper ACLs."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from barnabas.testing.client_settings import plain_users, quoted
from barnabas.testing.embedded import MECHANISMS, TLS_FOLDER

BROKER_USER = "broker"


class ClusterSecurity:
    """Settings of a cluster with this security protocol; `users` are names and passwords of clients."""

    def __init__(self, folder: Path, protocol: str, users: Mapping[str, str]) -> None:
        if BROKER_USER in users:
            raise ValueError(f"{BROKER_USER!r} is the user of the brokers: choose another name")
        self._folder, self._tls_folder = folder, folder / TLS_FOLDER
        self._protocol = protocol.upper()
        self._users = dict(users)
        self._password, self._digest = secrets.token_urlsafe(18), secrets.token_urlsafe(18)

    @property
    def settings(self) -> dict[str, str]:
        """Settings for every broker; empty for PLAINTEXT."""
        if self._protocol == "PLAINTEXT":
            return {}
        settings = {"security.inter.broker.protocol": self._protocol}
        if self._protocol.endswith("SSL"):
            settings |= self._tls()
        if self._protocol.startswith("SASL"):
            settings |= self._sasl()
        return settings

    def _tls(self) -> dict[str, str]:
        from barnabas.security.tls import Authority, own_hosts

        authority = Authority(self._tls_folder)
        authority.provide(own_hosts(()))
        return {
            "ssl.keystore.location": str(authority.broker),
            "ssl.truststore.location": str(authority.certificate),
        }

    def _sasl(self) -> dict[str, str]:
        known = plain_users({**self._users, BROKER_USER: self._password})
        own = f"required username={quoted(BROKER_USER)} password={quoted(self._password)}"
        return {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"listener.name.{self._protocol.lower()}.plain.sasl.jaas.config": known.replace(
                "required", own, 1
            ),
            "super.users": f"User:{BROKER_USER}",
            # Brokers store SCRAM credentials only in znodes that other clients of ZooKeeper cannot read.
            "zookeeper.set.acl": "true",
            "barnabas.zookeeper.digest": f"{BROKER_USER}:{self._digest}",
        }

    def data_dir(self, node_id: int) -> Path:
        """Return the data directory of a broker, with the authority where `EmbeddedBroker` expects it."""
        folder = self._folder / f"broker-{node_id}"
        if self._tls_folder.exists():
            shutil.copytree(self._tls_folder, folder / TLS_FOLDER)
        return folder
