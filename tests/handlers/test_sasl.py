"""Requests before, during and after authentication, byte by byte."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest

from barnabas.client.security.scram import scram
from barnabas.common.errors import ErrorCode
from barnabas.protocol import decode_response
from barnabas.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.protocol.schema import Message
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection, frame_of
from tests.support.sasl import PASSWORD, USER, add_user, sasl_settings

SESSION_MS = 1200
RIGHT = f"\0{USER}\0{PASSWORD}".encode()
WRONG = f"\0{USER}\0nonsense".encode()
OF_BOB = b"\0bob\0bobs-password"


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    settings = sasl_settings(
        **{
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,SHORT://127.0.0.1:0",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,SHORT:SASL_PLAINTEXT",
            "listener.name.short.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.short.plain.sasl.jaas.config": sasl_settings()[
                "listener.name.sasl_plaintext.plain.sasl.jaas.config"
            ],
            "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
            "barnabas.first.request.timeout.ms": "3000",
            "connection.failed.authentication.delay.ms": "300",
        }
    )
    with EmbeddedBroker(settings) as running:
        add_user(running, USER, PASSWORD)
        yield running


def connect(running: EmbeddedBroker, listener: str = "SASL_PLAINTEXT") -> RawConnection:
    (port,) = (each.port for each in running.broker.listeners if each.name == listener)
    return RawConnection(port)


def handshake(client: RawConnection, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    answer = client.ask(SaslHandshakeRequest(mechanism), version)
    assert isinstance(answer, SaslHandshakeResponse)
    return answer


def authenticate(client: RawConnection, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    answer = client.ask(SaslAuthenticateRequest(token), version)
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer


def log_in(client: RawConnection, token: bytes = RIGHT) -> SaslAuthenticateResponse:
    assert handshake(client).error_code == 0
    return authenticate(client, token)


def raw_answer(client: RawConnection, token: bytes) -> bytes:
    client.send(struct.pack(">i", len(token)) + token)
    answer = client.receive()
    assert answer is not None
    return answer


def is_served(client: RawConnection) -> bool:
    return client.ask(MetadataRequest(), 9) is not None


def is_closed_by(client: RawConnection, message: Message, version: int) -> bool:
    client.send(frame_of(message, version))
    return client.receive() is None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_is_served_once_it_has_authenticated(secured: EmbeddedBroker, version: int) -> None:
    with connect(secured) as client:
        answer = client.ask(ApiVersionsRequest(), 0)
        assert isinstance(answer, ApiVersionsResponse)
        assert {17, 36} <= {api.api_key for api in answer.api_keys}
        assert handshake(client).mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        answered = authenticate(client, RIGHT, version)

        assert (answered.error_code, answered.auth_bytes, answered.session_lifetime_ms) == (0, b"", 0)
        assert is_served(client)


def test_requests_before_it_close_the_connection(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        assert is_closed_by(client, MetadataRequest(), 9)
    with connect(secured) as client:
        handshake(client)
        assert is_closed_by(client, MetadataRequest(), 9)
    with connect(secured) as client:
        assert is_closed_by(client, SaslAuthenticateRequest(RIGHT), 2)


def test_a_frame_before_it_may_not_be_large(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        client.send(struct.pack(">i", 512 * 1024 + 1))
        assert client.receive() is None


def test_slow_client_is_disconnected(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        handshake(client)
        assert client.receive() is None


def test_failure_is_reported_late_and_closes_the_connection(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        handshake(client)
        began = time.monotonic()
        answer = authenticate(client, WRONG)

        assert time.monotonic() - began >= 0.3
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert client.receive() is None


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(secured: EmbeddedBroker) -> None:
    with connect(secured, "SHORT") as client:
        answer = handshake(client, "SCRAM-SHA-512")

        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        assert client.receive() is None


def test_after_handshake_0_tokens_come_without_headers(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        assert handshake(client, "SCRAM-SHA-256", version=0).error_code == 0
        exchange = scram("sha256", USER, PASSWORD)
        challenge = raw_answer(client, next(exchange))
        signature = raw_answer(client, exchange.send(challenge))
        with pytest.raises(StopIteration):
            exchange.send(signature)

        assert is_served(client)


def test_tokens_and_requests_may_come_together(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        token = struct.pack(">i", len(RIGHT)) + RIGHT
        client.send(frame_of(SaslHandshakeRequest("PLAIN"), 0) + token[:7])
        assert client.receive() is not None
        client.send(token[7:] + frame_of(MetadataRequest(), 9))

        assert client.receive() == b""
        assert client.receive() is not None


def test_a_raw_token_that_is_wrong_closes_the_connection(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        handshake(client, version=0)
        client.send(struct.pack(">i", len(WRONG)) + WRONG)

        assert client.receive() is None


def test_listener_without_sasl_reports_it(secured: EmbeddedBroker) -> None:
    with connect(secured, "PLAINTEXT") as client:
        assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(client, RIGHT).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert is_served(client)


def test_a_token_after_it_is_out_of_order(secured: EmbeddedBroker) -> None:
    with connect(secured) as client:
        log_in(client)

        assert authenticate(client, RIGHT).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE  # it never expires
        assert is_served(client)


def handshake_again(client: RawConnection, mechanism: str = "PLAIN") -> SaslHandshakeResponse | None:
    """Reauthenticate as soon as allowed; None if the connection is closed."""
    while True:
        client.send(frame_of(SaslHandshakeRequest(mechanism), 1))
        body = client.receive()
        if body is None:
            return None
        answer: SaslHandshakeResponse = decode_response(17, 1, SaslHandshakeResponse, memoryview(body))[1]
        if answer.error_code != ErrorCode.ILLEGAL_SASL_STATE:
            return answer


def test_session_lasts_for_the_configured_time(secured: EmbeddedBroker) -> None:
    with connect(secured, "SHORT") as client:
        assert log_in(client).session_lifetime_ms == SESSION_MS
        began = time.monotonic()
        while not is_closed_by(client, MetadataRequest(), 9):
            pass

        assert time.monotonic() - began > SESSION_MS / 1000 - 0.2


def test_a_client_that_authenticates_again_is_served_beyond_the_end(secured: EmbeddedBroker) -> None:
    before = secured.broker.authentication.counts[True, True]["SHORT"]
    with connect(secured, "SHORT") as client:
        log_in(client)
        began = time.monotonic()
        while time.monotonic() < began + 2 * SESSION_MS / 1000:
            assert handshake_again(client) is not None
            assert authenticate(client, RIGHT).session_lifetime_ms == SESSION_MS
            assert is_served(client)
    assert secured.broker.authentication.counts[True, True]["SHORT"] > before


def test_client_keeps_its_principal_when_it_authenticates_again(secured: EmbeddedBroker) -> None:
    with connect(secured, "SHORT") as client:
        log_in(client)
        handshake_again(client)
        answer = authenticate(client, OF_BOB)

        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "Cannot change principals" in (answer.error_message or "")
        assert client.receive() is None


def test_a_client_that_authenticates_again_keeps_its_mechanism(secured: EmbeddedBroker) -> None:
    with connect(secured, "SHORT") as client:
        log_in(client)

        assert handshake_again(client, "SCRAM-SHA-256") is None


def test_a_client_sends_nothing_else_while_it_authenticates_again(secured: EmbeddedBroker) -> None:
    with connect(secured, "SHORT") as client:
        log_in(client)
        handshake_again(client)

        assert is_closed_by(client, MetadataRequest(), 9)
