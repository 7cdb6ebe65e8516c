"""Both brokers with TLS and SASL listeners in addition to the plain one: same certificate, protocols and mechanisms."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.subjects.brokers import HEAP, PLAINTEXT, BarnabasProcess, Broker, listeners
from tests.support.certificates import Authority
from tests.support.kafka.broker import BROKER_FLAGS, ApacheKafka
from tests.support.programs import free_port

SECURED = "secured"  # broker kind in the session
SSL, SASL_PLAINTEXT = "SSL", "SASL_PLAINTEXT"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
CIPHER = "TLS_AES_256_GCM_SHA384"  # the preference of both Java and OpenSSL
_CONTROLLER = "CONTROLLER"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Certificates:
    """A CA for one run, and a P-256 certificate for both brokers."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        authority = Authority("benchmark")
        signed = authority.sign("localhost", "127.0.0.1")
        self.trust, self.store = folder / "ca.pem", folder / "broker.pem"
        self.trust.write_text(authority.pem)
        self.store.write_text(signed.key_pem() + signed.certificate_pem)

    def broker_settings(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.store),
            "ssl.enabled.protocols": "TLSv1.3",
        }

    def client_properties(self) -> dict[str, str]:
        """Properties of Kafka's clients. A single cipher, since a TLS 1.3 server chooses among the offered ones."""
        return {
            "security.protocol": SSL,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.cipher.suites": CIPHER,
        }


def _settings(certificates: Certificates, listener_ports: Mapping[str, int]) -> dict[str, str]:
    names = (*listener_ports, _CONTROLLER)
    protocols = {name: name if name != _CONTROLLER else PLAINTEXT for name in names}
    prefix = f"listener.name.{SASL_PLAINTEXT.lower()}"
    return {
        **certificates.broker_settings(),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        **{f"{prefix}.{one.lower()}.sasl.jaas.config": _SCRAM_MODULE for one in MECHANISMS},
    }


def _ports() -> dict[str, int]:
    return {protocol: free_port() for protocol in (PLAINTEXT, SSL, SASL_PLAINTEXT)}


def secured_kafka(name: str, folder: Path, certificates: Certificates) -> Broker:
    ports = _ports()
    controller = free_port()
    settings = {
        **_settings(certificates, ports),
        "listeners": listeners({**ports, _CONTROLLER: controller}),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    process = ApacheKafka(folder, ports[PLAINTEXT], HEAP, settings, BROKER_FLAGS)
    return Broker(name, process, process.log_dir, ports)


def secured_barnabas(
    name: str,
    folder: Path,
    certificates: Certificates,
    settings: Mapping[str, str],
    profile_to: Path | None = None,
) -> Broker:
    ports = _ports()
    settings = {**settings, **_settings(certificates, ports)}
    return Broker(name, BarnabasProcess(folder, settings, profile_to, ports=ports), folder, ports)
