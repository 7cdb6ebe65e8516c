"""Apache Kafka with a listener for each security protocol and mechanism.

with SecuredKafka(folder) as kafka:
    kafka.address("SECURE"), kafka.trust
"""

from pathlib import Path
from typing import Self

from tests.support.certificates import Authority
from tests.support.kafka.broker import CLUSTER_ID, ApacheKafka
from tests.support.kafka.tools import run_tool
from tests.support.programs import free_port

USER, PASSWORD = "alice", "al=ice; her \\ 'secret'"
SESSION_MS = 4000  # on the listener SHORT, whose clients must reauthenticate

_JAAS = "org.apache.kafka.common.security"
_QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
PLAIN_LOGIN = f'{_JAAS}.plain.PlainLoginModule required username="{USER}" password="{_QUOTED}";'
SCRAM_LOGIN = f'{_JAAS}.scram.ScramLoginModule required username="{USER}" password="{_QUOTED}";'

_USERS = f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{_QUOTED}";'
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")

# By listener: the protocol, and the mechanisms.
LISTENERS = {
    "TLS": ("SSL", ()),
    "MUTUAL": ("SSL", ()),
    "SHORT": ("SASL_PLAINTEXT", ("PLAIN",)),
    "NAMED": ("SASL_PLAINTEXT", ("PLAIN", *_SCRAM)),
    "SECURE": ("SASL_SSL", ("PLAIN", *_SCRAM, "OAUTHBEARER")),
}


class SecuredKafka(ApacheKafka):
    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(parents=True, exist_ok=True)
        self.ports = {name: free_port() for name in ("PLAINTEXT", "CONTROLLER", *LISTENERS)}
        self.authority = Authority()
        self.trust = data_dir / "authority.pem"
        self.trust.write_text(self.authority.pem)
        own = self.authority.sign("localhost", "127.0.0.1")
        self._store = data_dir / "broker.pem"
        self._store.write_text(own.key_pem() + own.certificate_pem)
        super().__init__(data_dir, self.ports["PLAINTEXT"], heap="256m", settings=self._secured())

    def __enter__(self) -> Self:
        self.start()
        return self

    def settings(self, listener: str, **login: str) -> dict[str, str]:
        """Client settings for a listener: `sasl_mechanism="PLAIN"` becomes the setting sasl.mechanism."""
        protocol = LISTENERS[listener][0]
        trust = {"ssl.truststore.location": str(self.trust)} if protocol.endswith("SSL") else {}
        settings = {name.replace("_", "."): value for name, value in login.items()}
        return {"security.protocol": protocol, **trust, **settings}

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def prepare(self) -> None:
        self._write_properties()
        users = [f'{mechanism}=[name="{USER}",password="{PASSWORD}"]' for mechanism in _SCRAM]
        scram = [part for user in users for part in ("--add-scram", user)]
        config = ("--config", str(self._properties), "--cluster-id", CLUSTER_ID)
        run_tool("kafka.tools.StorageTool", "format", *config, *scram).check()

    def _secured(self) -> dict[str, str]:
        protocols = {name: protocol for name, (protocol, _) in LISTENERS.items()}
        protocols |= {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        settings = {
            "listeners": listeners,
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['CONTROLLER']}",
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
            # A coordinator with fifty partitions takes seconds to be there.
            "offsets.topic.num.partitions": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
        }
        for name, (_, mechanisms) in LISTENERS.items():
            settings |= _mechanisms(name.lower(), mechanisms)
        return settings


def _mechanisms(listener: str, mechanisms: tuple[str, ...]) -> dict[str, str]:
    modules = {
        "PLAIN": _USERS,
        "SCRAM-SHA-256": f"{_JAAS}.scram.ScramLoginModule required;",
        "SCRAM-SHA-512": f"{_JAAS}.scram.ScramLoginModule required;",
        "OAUTHBEARER": (
            f'{_JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
    }
    prefix = f"listener.name.{listener}"
    logins = {f"{prefix}.{one.lower()}.sasl.jaas.config": _escaped(modules[one]) for one in mechanisms}
    return {f"{prefix}.sasl.enabled.mechanisms": ",".join(mechanisms), **logins} if mechanisms else {}


def _escaped(value: str) -> str:
    """For a properties file."""
    return value.replace("\\", "\\\\")
