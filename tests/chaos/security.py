"""Security of a test cluster: PLAINTEXT, or SASL_SSL everywhere except to ZooKeeper.

With SASL_SSL brokers log in to each other with PLAIN, and clients with SCRAM, whose keys are in the cluster's metadata,
which nobody else may read in ZooKeeper. Everybody logs in again every few seconds and needs rights: who is cut off in
the middle of that has to come back.
"""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from barnabas.testing.client_settings import ClientSettings, plain_users
from tests.support.certificates import Authority

PLAINTEXT, SASL_SSL = PROTOCOLS = "PLAINTEXT", "SASL_SSL"
SESSION_MS = "8000"
TIMEOUT = 60.0
_CLIENT, _ADMIN, _BROKER = "alice", "admin", "broker"
_PASSWORDS = {_CLIENT: "of alice", _ADMIN: "of the admin", _BROKER: "of all brokers"}


class Security:
    """Certificates are created in the folder."""

    def __init__(self, protocol: str, folder: Path) -> None:
        self.protocol = protocol
        self._trust, self._own = folder / "ca.pem", folder / "brokers.pem"
        if protocol == SASL_SSL:
            authority = Authority()
            own = authority.sign("localhost", "127.0.0.1")
            self._own.write_text(own.key_pem() + own.certificate_pem)
            self._trust.write_text(authority.pem)

    def of_brokers(self) -> dict[str, str]:
        if self.protocol == PLAINTEXT:
            return {}
        of_broker = {_BROKER: _PASSWORDS[_BROKER]}
        itself = f'required username="{_BROKER}" password="{_PASSWORDS[_BROKER]}" '
        return {
            "listener.security.protocol.map": "CLIENT:SASL_SSL,PEER:SASL_SSL",
            "ssl.keystore.location": str(self._own),
            "ssl.truststore.location": str(self._trust),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.client.plain.sasl.jaas.config": plain_users({_ADMIN: _PASSWORDS[_ADMIN]}),
            "listener.name.peer.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.peer.plain.sasl.jaas.config": plain_users(of_broker).replace("required ", itself),
            "connections.max.reauth.ms": SESSION_MS,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_CLIENT};User:{_ADMIN}",
            "zookeeper.set.acl": "true",
            "barnabas.zookeeper.digest": f"{_BROKER}:{_PASSWORDS[_BROKER]}",
        }

    def prepare(self, bootstrap_servers: str) -> None:
        """Create the user that clients are, on a running cluster."""
        if self.protocol == PLAINTEXT:
            return
        admin = AdminClient(self._of(bootstrap_servers, _ADMIN, "PLAIN").confluent)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        wanted = UserScramCredentialUpsertion(_CLIENT, info, _PASSWORDS[_CLIENT].encode())
        for altered in admin.alter_user_scram_credentials([wanted]).values():
            altered.result(TIMEOUT)

    def of_clients(self, bootstrap_servers: str) -> ClientSettings:
        if self.protocol == PLAINTEXT:
            return ClientSettings(bootstrap_servers)
        return self._of(bootstrap_servers, _CLIENT, "SCRAM-SHA-256")

    def _of(self, bootstrap_servers: str, user: str, mechanism: str) -> ClientSettings:
        return ClientSettings(
            bootstrap_servers, self.protocol, self._trust, user, _PASSWORDS[user], mechanism
        )
