"""The same login sequences, valid and invalid, to Apache Kafka and Barnabas: the same responses and disconnects.

One difference is meant: what is neither ApiVersions nor about SASL closes the connection during an exchange. Kafka
decodes it and answers ILLEGAL_SASL_STATE before it closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from barnabas.protocol import decode_response, response_class
from barnabas.protocol.messages.metadata import ApiVersionsRequest, MetadataRequest
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.schema import Message
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection, frame_of
from tests.support.kafka.secured import SESSION_MS, SecuredKafka
from tests.support.sasl import PASSWORD, PLAIN_USERS, USER

pytestmark = pytest.mark.java

NEWER = 99  # an unsupported version


class Ask(NamedTuple):
    message: Message
    version: int

    def frame(self) -> bytes:
        complete = frame_of(self.message, min(self.version, self.message.max_version))
        return complete[:6] + self.version.to_bytes(2, "big") + complete[8:]


def versions(version: int = 3, name: str = "tests") -> Ask:
    return Ask(ApiVersionsRequest(name, "1"), version)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Ask:
    return Ask(SaslHandshakeRequest(mechanism), version)


TOKEN = f"\0{USER}\0{PASSWORD}".encode()
TAKE = Ask(SaslAuthenticateRequest(TOKEN), 2)
WRONG = Ask(SaslAuthenticateRequest(f"\0{USER}\0nonsense".encode()), 2)
SERVED = Ask(MetadataRequest(), 9)
LOGIN = (handshake(), TAKE)

CONVERSATIONS = {
    "versions first": (versions(), *LOGIN, SERVED),
    "versions twice": (versions(), versions()),
    "of old and new versions": (versions(0), versions(3)),
    "versions that nobody serves": (versions(NEWER), versions(NEWER), versions(3), *LOGIN, SERVED),
    "versions of a nameless client": (versions(name="-"), versions(), *LOGIN),
    "versions after the handshake": (handshake(), versions()),
    "versions before and after it": (versions(), handshake(), versions()),
    "two handshakes": (handshake(), handshake()),
    "a token first": (TAKE,),
    "a token behind versions": (versions(), TAKE),
    "another request first": (SERVED,),
    "another mechanism": (handshake("NONE"), handshake()),
    "another version": (handshake(version=7),),
    "versions instead of a raw token": (handshake(version=0), versions()),
    "versions after the login": (*LOGIN, versions(), versions(), SERVED),
    "a token after the login": (*LOGIN, TAKE, SERVED),
    "a handshake after the login": (*LOGIN, handshake(), versions()),
    "a failed login": (handshake(), WRONG, versions()),
    "a login again": (*LOGIN, *LOGIN, SERVED),
    "a login again and again": (*LOGIN, *LOGIN, *LOGIN, SERVED),
    "versions before it again": (*LOGIN, versions(), *LOGIN, SERVED),
    "a handshake during it again": (*LOGIN, handshake(), handshake()),
    "a token before it again": (*LOGIN, TAKE, *LOGIN),
    "another mechanism again": (*LOGIN, handshake("SCRAM-SHA-256")),
}


@pytest.fixture(scope="module")
def ours() -> Iterator[EmbeddedBroker]:
    settings = {
        "listeners": "NAMED://127.0.0.1:0,SHORT://127.0.0.1:0",
        "listener.security.protocol.map": "NAMED:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "NAMED",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.named.plain.sasl.jaas.config": PLAIN_USERS,
        "listener.name.short.plain.sasl.jaas.config": PLAIN_USERS,
        "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
    }
    with EmbeddedBroker(settings) as running:
        yield running


@pytest.mark.parametrize("listener", ["NAMED", "SHORT"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_login_follows_kafkas_sequence(
    secured_kafka: SecuredKafka, ours: EmbeddedBroker, name: str, listener: str
) -> None:
    steps = CONVERSATIONS[name]
    (port,) = (each.port for each in ours.broker.listeners if each.name == listener)

    assert heard(port, steps) == heard(secured_kafka.ports[listener], steps)


def heard(port: int, steps: Sequence[Ask]) -> list[str]:
    """Error codes of the responses, and finally the disconnect, if any."""
    output: list[str] = []
    with RawConnection(port) as client:
        for step in steps:
            client.send(step.frame())
            answer = client.receive()
            if answer is None:
                return [*output, f"{step.message.NAME} closed"]
            output.append(f"{step.message.NAME} {error_code(step, answer)}")
    return output


def error_code(requested: Ask, answer: bytes) -> int:
    version = 0 if requested.version == NEWER else requested.version
    cls = response_class(requested.message.api_key)
    decoded = decode_response(requested.message.api_key, version, cls, memoryview(answer))[1]
    return int(getattr(decoded, "error_code", 0))
