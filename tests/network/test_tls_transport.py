"""TLS clients: requests and responses of any length, completed and abandoned handshakes, principals."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.clock import ManualClock, SystemClock
from barnabas.common.files import FileSlice, LocalFileSystem
from barnabas.network.limits import Limits
from barnabas.network.requests import Handler, Request
from barnabas.network.tls_listeners import TlsListeners
from barnabas.network.tls_transport import TlsTransport
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.security.authn.credentials import Secret, SecuritySettingError
from barnabas.security.tls.server import ListenerTls, named_stores
from barnabas.security.tls.settings import TlsSettings
from barnabas.security.tls.stores import CertificateStore
from tests.support.certificates import Authority
from tests.support.server import Client, Harness, echo, frame, heartbeat, heartbeat_frame, scenario, serving

AUTHORITY = Authority()


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> ListenerTls:
    store = tmp_path_factory.mktemp("tls") / "broker.pem"
    signed = AUTHORITY.sign("localhost", "127.0.0.1")
    store.write_text(signed.certificate_pem + signed.key_pem())
    tls = TlsSettings(
        certificate=CertificateStore("ssl.keystore.location", str(store)),
        authorities=CertificateStore("ssl.truststore.certificates", text=Secret(AUTHORITY.pem)),
    )
    return ListenerTls("TEST", tls, client_auth="requested")


@asynccontextmanager
async def serving_tls(
    wanted: ListenerTls, *handlers: Handler, handshakes: int = 100, **options: Any
) -> AsyncIterator[tuple[Harness, Callable[..., Any]]]:
    """A server whose listener speaks TLS, and how to connect to it."""
    monotonic = (options.get("clock") or SystemClock()).monotonic
    async with serving(*handlers, **options) as server:
        server.server.tls = TlsListeners([wanted], handshakes, monotonic)
        listener = server.server.listeners[0]
        listener.wrap, listener._pace = (
            server.server.tls["TEST"].wrap,
            server.server.tls.handshakes.delay,
        )
        yield server, partial(connect, server)


async def connect(server: Harness, folder: Path | None = None, name: str = "") -> Client:
    """A client that shows a certificate with this name, if it has one."""
    trusting = ssl.create_default_context(cadata=AUTHORITY.pem)
    if folder is not None:
        signed = AUTHORITY.sign(name)
        (folder / "client.pem").write_text(signed.certificate_pem + signed.key_pem())
        trusting.load_cert_chain(folder / "client.pem")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)
    client = Client(reader, writer)
    server.clients.append(client)
    return client


def produce(broker: Any, request: Request, message: ProduceRequest) -> ProduceResponse:
    (data,) = message.topic_data[0].partition_data
    return ProduceResponse(throttle_time_ms=len(data.records or b""))


def produce_frame(correlation_id: int, length: int) -> bytes:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=bytes(length))])
    return frame(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), 9, correlation_id)


def test_requests_of_any_length_are_answered_in_order(wanted: ListenerTls) -> None:
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, Handler(ProduceRequest, 3, 9, produce)) as (server, connect):
            client = await connect()
            lengths = [1, 20_000, 1, 300_000, 2_500_000, 1]
            for data in (
                [b"".join(map(produce_frame, range(6), lengths))],
                map(produce_frame, range(6), lengths),
            ):
                for piece in data:
                    await client.send(piece)
                assert await client.correlation_ids(6) == list(range(6))
            assert server.server.memory.used == 0

    run()


class RawClient:
    """TLS records that are cut into pieces by the network, not by OpenSSL."""

    def __init__(self, plain: Client) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        trusting = ssl.create_default_context(cadata=AUTHORITY.pem)
        self._tls = trusting.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def shake_hands(self) -> None:
        await self._until_done(self._tls.do_handshake)
        await self._plain.send(self._outgoing.read())

    def encrypted(self, data: bytes, record_bytes: int) -> bytes:
        for start in range(0, len(data), record_bytes):
            self._tls.write(data[start : start + record_bytes])
        return self._outgoing.read()

    async def response(self) -> bytes:
        head: bytes = await self._until_done(lambda: self._tls.read(4))
        body: bytes = await self._until_done(lambda: self._tls.read(int.from_bytes(head, "big")))
        return body

    async def _until_done(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self._plain.send(self._outgoing.read())
                self._incoming.write(await self._plain.reader.read(65536))


@pytest.mark.parametrize("socket_buffer", [None, 8192])
def test_requests_are_answered_with_any_split_of_tls_records(
    wanted: ListenerTls, socket_buffer: int | None
) -> None:
    """Each is answered before the next one is sent, so nothing waits for missing bytes."""
    choices = random.Random(1)

    @scenario
    async def run() -> None:
        async with serving_tls(wanted, Handler(ProduceRequest, 3, 9, produce)) as (server, _):
            if socket_buffer is not None:
                listening = server.server.listeners[0]._socket
                assert listening is not None
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, socket_buffer)
            plain = await server.connect()
            client = RawClient(plain)
            await client.shake_hands()
            for number in range(60):
                data = produce_frame(number, choices.randrange(30_000, 250_000))
                encrypted = client.encrypted(data, choices.choice((700, 5_000, 16_384)))
                position = 0
                while position < len(encrypted):
                    size = choices.choice((1, 100, 5_000, 20_000, 70_000))
                    await plain.send(encrypted[position : position + size])
                    position += size
                    await asyncio.sleep(0)
                assert (await client.response())[:4] == number.to_bytes(4, "big")

    run()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every record wakes up the loop")
def test_not_every_record_of_a_long_request_wakes_up_the_loop(
    wanted: ListenerTls, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []

    def receive(transport: TlsTransport, first: memoryview, second: memoryview) -> int:
        count = receive_both(transport, first, second)
        received.append(count)
        return count

    receive_both = TlsTransport.receive_both
    monkeypatch.setattr(TlsTransport, "receive_both", receive)

    @scenario
    async def run() -> None:
        async with serving_tls(wanted, Handler(ProduceRequest, 3, 9, produce)) as (_, connect):
            client = await connect()
            data = produce_frame(1, 640_000)
            for start in range(0, len(data), 16_384):
                await client.send(data[start : start + 16_384])
                for _ in range(3):
                    await asyncio.sleep(0)
            assert await client.correlation_ids(1) == [1]

    run()
    assert 0 < len(received) < 20  # of 40 records


def test_many_small_requests_that_were_decrypted_together_are_all_served(wanted: ListenerTls) -> None:
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (_, connect):
            client = await connect()
            await client.send(b"".join(map(heartbeat_frame, range(30_000))))
            assert await client.correlation_ids(30_000) == list(range(30_000))

    run()


def test_slices_of_files_reach_a_slow_reader(wanted: ListenerTls, tmp_path: Path) -> None:
    file = LocalFileSystem().open(str(tmp_path / "segment"), create=True)
    data = random.Random(1).randbytes(5_000_000)
    file.append(data)

    def fetch(broker: Any, request: Request, message: FetchRequest) -> FetchResponse:
        partition = PartitionData(records=FileSlice(file, 0, len(data)))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])

    @scenario
    async def run() -> None:
        async with serving_tls(wanted, Handler(FetchRequest, 4, 12, fetch), heartbeat(echo)) as (_, connect):
            slow, other = await connect(), await connect()
            await slow.send(frame(FetchRequest(), 11, 1) + frame(FetchRequest(), 11, 2) + heartbeat_frame(3))
            await other.send(heartbeat_frame(9))
            assert await other.correlation_ids(1) == [9]
            for _ in range(2):
                assert data in await slow.response()
            assert await slow.correlation_ids(1) == [3]

    run()


def test_plaintext_connection_to_a_tls_port_is_closed(wanted: ListenerTls) -> None:
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, connect):
            plain = await server.connect()
            await plain.send(heartbeat_frame(1))
            await plain.reader.read()  # an alert
            await server.connections_become(0)
            client = await connect()
            await client.send(heartbeat_frame(2))
            assert await client.correlation_ids(1) == [2]

    run()


def test_a_handshake_that_does_not_end_is_closed_as_a_connection_without_a_request(
    wanted: ListenerTls,
) -> None:
    @scenario
    async def run() -> None:
        clock = ManualClock()
        limits = Limits(first_request_seconds=1.0)
        async with serving_tls(wanted, heartbeat(echo), limits=limits, clock=clock) as (server, _):
            silent = await server.connect()
            await silent.send(b"\x16\x03\x01")
            await server.connections_become(1)
            clock.advance(2_000)
            server.server.connections.close_overdue(clock.monotonic())
            assert await silent.is_closed()
            assert server.server.closed == {"no request": 1}

    run()


def test_a_client_that_closes_is_forgotten(wanted: ListenerTls) -> None:
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, connect):
            client = await connect()
            await client.send(heartbeat_frame(1))
            assert await client.correlation_ids(1) == [1]
            client.writer.close()
            await server.connections_become(0)

    run()


def test_client_certificate_determines_the_principal(wanted: ListenerTls, tmp_path: Path) -> None:
    principals: list[str] = []

    def note(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        principals.append(str(request.context.principal))
        return HeartbeatResponse()

    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(note)) as (_, connect):
            for client in (await connect(tmp_path, "alice"), await connect()):
                await client.send(heartbeat_frame(1))
                assert await client.correlation_ids(1) == [1]
        assert principals == ["User:CN=alice", "User:ANONYMOUS"]

    run()


def test_a_certificate_does_not_replace_sasl(wanted: ListenerTls, tmp_path: Path) -> None:
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, connect):
            server.server.listeners[0].security_protocol = "SASL_SSL"
            client = await connect(tmp_path, "alice")
            await client.send(heartbeat_frame(1))
            assert await client.is_closed()

    run()


def test_a_client_gets_the_certificate_of_the_name_that_it_asks_for(
    wanted: ListenerTls, tmp_path: Path
) -> None:
    for name in ("broker.example", "one.more.example"):
        signed = AUTHORITY.sign(name)
        (tmp_path / name).write_text(signed.certificate_pem + signed.key_pem())
    items = (f"Broker.example={tmp_path}/broker.example", f"*.more.example={tmp_path}/one.more.example")
    named = replace(wanted, by_name=named_stores(items, None))

    @scenario
    async def run() -> None:
        async with serving_tls(named, heartbeat(echo)) as (server, _):
            trusting = ssl.create_default_context(cadata=AUTHORITY.pem)
            for name in ("broker.example", "one.more.example", "localhost", "127.0.0.1"):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", server.port, ssl=trusting, server_hostname=name
                )
                client = Client(reader, writer)
                server.clients.append(client)
                await client.send(heartbeat_frame(1))
                assert await client.correlation_ids(1) == [1]

    run()


@pytest.mark.parametrize("item", ["broker.example", "=/x.pem", "*.*.example=/x.pem", "name="])
def test_a_name_needs_a_file(item: str) -> None:
    with pytest.raises(SecuritySettingError, match=r"barnabas.ssl.sni.keystores has .* write NAME=FILE"):
        named_stores([item], None)
