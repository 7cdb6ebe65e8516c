"""The client over TLS and SASL, against Apache Kafka with a listener for each combination."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.errors import AuthenticationError, CannotConnectError, ConnectionLostError, TlsError
from barnabas.client.offsets import parse_start, resolve_start
from barnabas.client.producer import Producer
from barnabas.client.security.parsing import parse_security
from barnabas.client.share.acquired import AcknowledgeType
from barnabas.client.share.consumer import ShareConsumer
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.support.certificates import Authority
from tests.support.kafka.jars import requires_java
from tests.support.kafka.secured import PASSWORD, PLAIN_LOGIN, SCRAM_LOGIN, SESSION_MS, USER, SecuredKafka

pytestmark = requires_java

TIMEOUT = 60.0
NewName = Callable[[], str]


def client_of(kafka: SecuredKafka, listener: str, settings: Mapping[str, str]) -> Client:
    return Client(kafka.address(listener), security=parse_security(settings))


async def there_and_back(client: Client, topic: str) -> None:
    """Create a topic, write and read a large record."""
    value = bytes(range(256)) * 2000
    async with client, asyncio.timeout(TIMEOUT):
        await admin.create_topic(client, topic)
        async with Producer(client) as producer:
            await producer.send(topic, value, b"key")
        start = await resolve_start(client, [TopicPartition(topic, 0)], parse_start("beginning"))
        async with Consumer(client, start) as consumer:
            records = await consumer.poll()
            while not records:
                records = await consumer.poll()
    assert [record.value for record in records] == [value]


async def fails(client: Client) -> str:
    """The error, quickly: permanent errors are not retried for a minute."""
    async with client, asyncio.timeout(TIMEOUT / 2):
        with pytest.raises((TlsError, AuthenticationError)) as caught:
            await client.all_topics()
    return str(caught.value)


@pytest.mark.parametrize(
    ("listener", "login"),
    [
        ("TLS", {}),
        ("NAMED", {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN_LOGIN}),
        ("NAMED", {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": SCRAM_LOGIN}),
        ("NAMED", {"sasl_mechanisms": "SCRAM-SHA-512", "sasl_username": USER, "sasl_password": PASSWORD}),
        ("SECURE", {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN_LOGIN}),
        ("SECURE", {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": SCRAM_LOGIN}),
    ],
)
def test_records_go_there_and_back(
    secured_kafka: SecuredKafka, new_name: NewName, listener: str, login: dict[str, str]
) -> None:
    settings = secured_kafka.settings(listener, **login)

    asyncio.run(there_and_back(client_of(secured_kafka, listener, settings), new_name()))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_broker_that_wants_a_certificate_gets_one(
    secured_kafka: SecuredKafka, new_name: NewName, tmp_path: Path, version: str
) -> None:
    (tmp_path / "mine.p12").write_bytes(secured_kafka.authority.sign("client").store("hush"))
    keys = {"ssl_keystore_location": str(tmp_path / "mine.p12"), "ssl_keystore_password": "hush"}
    settings = secured_kafka.settings("MUTUAL", **keys, ssl_enabled_protocols=version)

    asyncio.run(there_and_back(client_of(secured_kafka, "MUTUAL", settings), new_name()))


def test_jobs_are_taken_by_a_share_consumer(secured_kafka: SecuredKafka, new_name: NewName) -> None:
    async def main() -> None:
        topic, group = new_name(), new_name()
        login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": SCRAM_LOGIN}
        settings = secured_kafka.settings("SECURE", **login)
        async with client_of(secured_kafka, "SECURE", settings) as client, asyncio.timeout(TIMEOUT):
            await admin.create_topic(client, topic)
            earliest = admin.ConfigChange("share.auto.offset.reset", "earliest")
            await admin.alter_configs(client, admin.GROUP, group, [earliest])
            async with Producer(client) as producer:
                await producer.send(topic, b"job")
            async with ShareConsumer(client, group, [topic]) as consumer:
                taken = await consumer.take(1)
                while not taken:
                    taken = await consumer.take(1)
                consumer.answer(taken[0], AcknowledgeType.ACCEPT)
                assert not await consumer.flush()

    asyncio.run(main())


def test_a_session_is_renewed_on_the_same_connection_while_requests_are_under_way(
    secured_kafka: SecuredKafka,
) -> None:
    """KIP-368: the broker closes a connection that sends anything after the end of its session."""

    async def main() -> None:
        login = {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN_LOGIN}
        settings = secured_kafka.settings("SHORT", **login)
        async with client_of(secured_kafka, "SHORT", settings) as client, asyncio.timeout(TIMEOUT):
            connection = await client.any_connection()
            await asyncio.gather(*(asks_on(client) for _ in range(3)))
            assert await client.any_connection() is connection
            assert connection._session is not None
            assert connection._session.renewals >= 1

    async def asks_on(client: Client) -> None:
        end = time.monotonic() + 1.2 * SESSION_MS / 1000
        while time.monotonic() < end:
            await (await client.any_connection()).send(MetadataRequest(topics=[]))
            await asyncio.sleep(0.01)

    asyncio.run(main())


# -- OAUTHBEARER -------------------------------------------------------------------------------------


def token(user: str = USER) -> str:
    """An unsigned token, which Kafka accepts unless a JWKS endpoint is configured."""
    now = time.time()
    parts = [{"alg": "none"}, {"sub": user, "iat": now, "exp": now + 600}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


@contextmanager
def token_endpoint(client_id: str, secret: str) -> Iterator[tuple[str, list[str]]]:
    """Its address and its requests."""
    requests: list[str] = []
    name = "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            known = self.headers["Authorization"] == name
            body = json.dumps({"access_token": token(), "expires_in": 600}).encode() if known else b"{}"
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/token", requests
        server.shutdown()


def oauth(kafka: SecuredKafka, **login: str) -> dict[str, str]:
    return kafka.settings("SECURE", sasl_mechanism="OAUTHBEARER", **login)


def test_a_token_is_taken_from_settings_a_file_or_a_coroutine(
    secured_kafka: SecuredKafka, new_name: NewName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fresh() -> str:
        return token()

    (tmp_path / "token").write_text(token() + "\n")
    uri = (tmp_path / "token").as_uri()
    monkeypatch.setenv("BARNABAS_OAUTHBEARER_ALLOWED_URLS", uri)
    file = oauth(secured_kafka, sasl_oauthbearer_token_endpoint_url=uri)
    address = secured_kafka.address("SECURE")

    for security in (
        parse_security(oauth(secured_kafka, sasl_oauthbearer_token=token())),
        parse_security(file),
        parse_security(oauth(secured_kafka), token=fresh),
    ):
        asyncio.run(there_and_back(Client(address, security=security), new_name()))


def test_a_token_is_got_with_a_client_id_and_its_secret(
    secured_kafka: SecuredKafka, new_name: NewName
) -> None:
    with token_endpoint("me", "hush") as (url, requests):
        login = {
            "sasl_oauthbearer_token_endpoint_url": url,
            "sasl_oauthbearer_client_id": "me",
            "sasl_oauthbearer_client_secret": "hush",
            "sasl_oauthbearer_scope": "kafka",
        }
        asyncio.run(
            there_and_back(client_of(secured_kafka, "SECURE", oauth(secured_kafka, **login)), new_name())
        )
        assert requests == ["grant_type=client_credentials&scope=kafka"]

        login["sasl_oauthbearer_client_secret"] = "oops"
        message = asyncio.run(fails(client_of(secured_kafka, "SECURE", oauth(secured_kafka, **login))))
    assert "denied a token to 'me' (HTTP 401)" in message
    assert "oops" not in message


# -- what goes wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "text"),
    [
        ("PLAIN", "Invalid username or password"),
        ("SCRAM-SHA-256", "invalid credentials"),
        ("SCRAM-SHA-512", "invalid credentials"),
    ],
)
def test_wrong_password_is_reported_immediately_and_never_shown(
    secured_kafka: SecuredKafka, caplog: pytest.LogCaptureFixture, mechanism: str, text: str
) -> None:
    caplog.set_level(logging.DEBUG)
    login = {"sasl_mechanism": mechanism, "sasl_username": USER, "sasl_password": "not-hers"}
    settings = secured_kafka.settings("NAMED", **login)

    message = asyncio.run(fails(client_of(secured_kafka, "NAMED", settings)))

    assert text in message
    assert "not-hers" not in message + caplog.text


def test_invalid_listener_settings_are_reported(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    plain = {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN_LOGIN}
    scram = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": SCRAM_LOGIN}
    tls = secured_kafka.settings("TLS")
    stranger = Authority("stranger")
    (tmp_path / "other.pem").write_text(stranger.pem)
    own = stranger.sign("client")
    keys = {"ssl.keystore.certificate.chain": own.certificate_pem, "ssl.keystore.key": own.key_pem()}
    wrong = [
        ("TLS", {}, "uses TLS on this port: set security.protocol to SSL or SASL_SSL"),
        ("TLS", secured_kafka.settings("NAMED", **plain), "uses TLS on this port"),
        ("TLS", {"security.protocol": "SSL"}, "authority that is not trusted here"),
        ("TLS", {**tls, "ssl.truststore.location": str(tmp_path / "other.pem")}, "not trusted here"),
        ("MUTUAL", tls, "requires a client certificate"),
        ("MUTUAL", {**tls, "ssl.enabled.protocols": "TLSv1.2"}, "requires a client certificate"),
        ("MUTUAL", {**tls, **keys}, "does not accept the certificate of this client"),
        (
            "SHORT",
            secured_kafka.settings("NAMED", **scram),
            "does not offer the mechanism SCRAM-SHA-256; it offers PLAIN",
        ),
        (
            "SECURE",
            oauth(secured_kafka, sasl_oauthbearer_token="nonsense"),
            "rejected this client (OAUTHBEARER)",
        ),
    ]
    for listener, settings, text in wrong:
        assert text in asyncio.run(fails(client_of(secured_kafka, listener, settings))), listener
    message = asyncio.run(
        fails(
            Client(
                secured_kafka.bootstrap_servers,
                security=parse_security(secured_kafka.settings("NAMED", **plain)),
            )
        )
    )
    assert "does not use SASL on this port" in message


def test_listener_that_closes_the_connection_is_reported_with_a_hint(secured_kafka: SecuredKafka) -> None:
    async def main() -> None:
        tls = parse_security(secured_kafka.settings("TLS"))
        async with Client(secured_kafka.bootstrap_servers, security=tls) as client:
            with pytest.raises(CannotConnectError, match=r"ended the TLS handshake .*security\.protocol"):
                await client.all_topics()
        async with Client(secured_kafka.address("NAMED")) as client:
            with pytest.raises(ConnectionLostError, match="does this port require SASL"):
                await client.all_topics()

    asyncio.run(main())


def test_a_certificate_for_another_host_is_refused_unless_that_is_switched_off(
    secured_kafka: SecuredKafka, new_name: NewName
) -> None:
    """The broker's certificate names localhost and 127.0.0.1, and this is neither."""
    port = secured_kafka.ports["TLS"]
    anywhere = secured_kafka.settings("TLS", ssl_endpoint_identification_algorithm="")
    other_name = f"[::ffff:127.0.0.1]:{port}"

    message = asyncio.run(fails(Client(other_name, security=parse_security(secured_kafka.settings("TLS")))))
    assert "a certificate for another host" in message
    asyncio.run(there_and_back(Client(other_name, security=parse_security(anywhere)), new_name()))
