"""Credentials are forwarded to registries only: any client that may READ the group can claim to lead it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from barnabas.client.access.acls import create_acls
from barnabas.client.addresses import Address
from barnabas.client.cluster import Client
from barnabas.client.producing.batch_sender import BatchSender
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.client.security.parsing import parse_security
from barnabas.client.security.settings import ClientSecurity
from barnabas.common.types import TopicPartition
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.security.authz.acls import WILDCARD, allowing
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.services.registry import store
from barnabas.services.registry.access import needed_acls
from barnabas.services.registry.leadership import RegistryIdentity, RegistryLeadership
from barnabas.services.registry.peers import InvalidPeerError, parse_peers
from barnabas.services.registry.server import RegistryServer, RegistrySettings
from barnabas.testing import EmbeddedBroker
from tests.support.registry import Answer, Rest

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = {"admin": "admin's", "registry": "registry's", "mallory": "mallory's"}
ANNOUNCEMENT_KEY = b'{"magic":0,"keytype":"NOOP"}'


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    """Mallory has common rights: READ on all groups; and, worse, write to all topics."""
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    rights = {
        (ResourceType.GROUP, WILDCARD): (Operation.READ,),
        (ResourceType.TOPIC, WILDCARD): (Operation.READ, Operation.WRITE),
        (ResourceType.TRANSACTIONAL_ID, "mallory"): (Operation.WRITE,),
    }
    with EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=USERS) as broker:

        async def allow() -> None:
            async with client_of(broker, "admin") as client:
                await create_acls(client, [*allowing("mallory", rights), *needed_acls("registry")])

        asyncio.run(allow())
        yield broker


def security_of(broker: EmbeddedBroker, user: str) -> ClientSecurity:
    return parse_security(broker.clients_of(user).java)


def client_of(broker: EmbeddedBroker, user: str) -> Client:
    return Client(broker.bootstrap_servers, security=security_of(broker, user))


@contextmanager
def fake_registry() -> Iterator[tuple[RegistryIdentity, list[str]]]:
    """An HTTP server, and the Authorization headers that it was sent."""
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            received.append(self.headers.get("Authorization", ""))
            body = b'{"compatibility":"NONE"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield RegistryIdentity("127.0.0.1", server.server_address[1]), received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@asynccontextmanager
async def led_by(broker: EmbeddedBroker, leader: RegistryIdentity) -> AsyncIterator[None]:
    """Mallory joins the group and leads it."""
    async with client_of(broker, "mallory") as client:
        membership = RegistryLeadership(client, leader)
        membership.start()
        try:
            assert await membership.known_leader(60.0) == leader
            yield
        finally:
            await membership.close()


@asynccontextmanager
async def registry(
    broker: EmbeddedBroker, leader: RegistryIdentity, listed: frozenset[str] = frozenset()
) -> AsyncIterator[RegistryServer]:
    settings = RegistrySettings(
        broker.bootstrap_servers,
        security_of(broker, "registry"),
        Address("127.0.0.1", 0),
        peers=listed,
    )
    async with RegistryServer(settings) as server:
        assert server.store.leadership is not None
        assert await server.store.leadership.known_leader(60.0) == leader
        yield server


async def change(server: RegistryServer) -> Answer:
    def put() -> Answer:
        with Rest(server.url, "admin:admin's") as rest:
            return rest.put("/config", {"compatibility": "NONE"})

    return await asyncio.to_thread(put)


async def forge(broker: EmbeddedBroker, leader: RegistryIdentity, *, transactional: bool) -> None:
    """An announcement that Mallory writes."""
    value = f'{{"leader":"{leader.url}"}}'.encode()
    tp = TopicPartition("_schemas", 0)
    async with client_of(broker, "mallory") as client:
        if not transactional:
            batch = build_batch([Record(0, 0, ANNOUNCEMENT_KEY, value, ())])
            (await BatchSender(client).send({tp: batch})).raise_first()
            return
        transactions = TransactionRequests(client)
        identity = await transactions.initialize("mallory", 30_000)
        await transactions.add_partitions("mallory", identity, [tp])
        batch = build_batch(
            [Record(0, 0, ANNOUNCEMENT_KEY, value, ())],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=0,
            transactional=True,
        )
        (await BatchSender(client, transactional_id="mallory").send({tp: batch})).raise_first()
        await transactions.end("mallory", identity, committed=True)


def test_credentials_are_not_sent_to_an_address_that_a_member_of_the_group_claims(
    secured: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "ANNOUNCEMENT_SECONDS", 1.0)

    async def work(leader: RegistryIdentity, received: list[str]) -> None:
        async with led_by(secured, leader), registry(secured, leader) as server:
            refused = await change(server)
            assert refused.status == 503
            assert "--peers" in refused.body["message"]
            for transactional in (False, True):
                await forge(secured, leader, transactional=transactional)
                assert (await change(server)).status == 503
        assert received == []

    with fake_registry() as (leader, received):
        asyncio.run(work(leader, received))


def test_a_leader_that_is_listed_in_peers_gets_the_request(secured: EmbeddedBroker) -> None:
    async def work(leader: RegistryIdentity, received: list[str]) -> None:
        async with (
            led_by(secured, leader),
            registry(secured, leader, frozenset({leader.url})) as server,
        ):
            assert (await change(server)).status == 200
        assert len(received) == 1
        assert received[0].startswith("Basic ")

    with fake_registry() as (leader, received):
        asyncio.run(work(leader, received))


def test_others_with_rights_on_the_group_are_warned_of(
    secured: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        settings = RegistrySettings(
            secured.bootstrap_servers, security_of(secured, "registry"), Address("127.0.0.1", 0)
        )
        async with RegistryServer(settings):
            pass

    asyncio.run(work())
    (warning,) = [one.getMessage() for one in caplog.records if "claim to be" in one.getMessage()]
    assert "User:mallory may join the group schema-registry" in warning
    assert "User:registry" not in warning


def test_peers_are_urls() -> None:
    assert parse_peers("http://One:8081, https://two") == {"http://one:8081", "https://two:443"}
    assert parse_peers("") == frozenset()
    for text in (
        "one:8081",
        "ftp://one:1",
        "http://",
        "http://one:x",
        "http://one:1/path",
        "http://me:pw@one:1",
    ):
        with pytest.raises(InvalidPeerError, match="not a valid registry address"):
            parse_peers(text)
