"""Non-TLS bytes, damaged handshakes and damaged records close only their connection."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from pathlib import Path
from typing import Any

import pytest

from barnabas.security.tls.server import ListenerTls
from tests.fuzz.key_updates import Writer
from tests.network.test_tls_transport import AUTHORITY, connect, serving_tls, wanted  # noqa: F401  (a fixture)
from tests.support.server import Client, Harness, echo, heartbeat, heartbeat_frame, scenario

DAMAGED = 400
SEED = 20261117


class Hostile:
    """A TLS client in memory whose bytes are damaged on their way."""

    def __init__(self, rng: random.Random, secrets: Path | None = None) -> None:
        self._chance = rng
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cadata=AUTHORITY.pem)
        if secrets is not None:
            context.keylog_filename = str(secrets)
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def hello(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def damaged(self, data: bytes) -> bytes:
        """Some bits turned, the end cut off, or a part sent twice."""
        kind, changed = self._chance.randrange(3), bytearray(data)
        if kind == 0:
            for _ in range(self._chance.randint(1, 8)):
                changed[self._chance.randrange(len(changed))] ^= 1 << self._chance.randrange(8)
        elif kind == 1:
            del changed[self._chance.randrange(1, len(changed)) :]
        else:
            begin = self._chance.randrange(len(changed))
            changed[begin:begin] = changed[begin : begin + self._chance.randint(1, 200)]
        return bytes(changed)


async def throw_at(server: Harness, data: bytes) -> None:
    client = await server.connect()
    client.writer.write(data)
    client.writer.write_eof()
    with contextlib.suppress(ConnectionError):
        await client.reader.read()
    client.abort()


def notes_of(loop: asyncio.AbstractEventLoop) -> list[dict[str, Any]]:
    """Exceptions of loop callbacks from now on."""
    notes: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: notes.append(context))
    return notes


async def check_serves(server: Harness, notes: list[dict[str, Any]]) -> None:
    await server.connections_become(0)
    client = await connect(server)
    await client.send(heartbeat_frame(1))
    assert await client.correlation_ids(1) == [1]
    assert server.server.memory.used == 0
    assert len(server.server.tls.handshakes) == 0
    assert notes == []


def test_damaged_handshakes_end_their_own_connection_only(wanted: ListenerTls) -> None:  # noqa: F811
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, _):
            notes, rng = notes_of(asyncio.get_running_loop()), random.Random(SEED)
            for number in range(DAMAGED):
                hostile = Hostile(rng)
                noise = rng.randbytes(rng.randint(1, 600))
                await throw_at(server, noise if number % 10 == 0 else hostile.damaged(hostile.hello()))
            await check_serves(server, notes)

    run()


def test_damaged_records_after_the_handshake_end_their_own_connection_only(wanted: ListenerTls) -> None:  # noqa: F811
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, _):
            notes, rng = notes_of(asyncio.get_running_loop()), random.Random(SEED)
            for _ in range(DAMAGED // 4):
                await talk_and_damage(server, Hostile(rng))
            await check_serves(server, notes)

    run()


async def shake_hands(server: Harness, hostile: Hostile) -> Client:
    client = await server.connect()
    client.writer.write(hostile.hello())
    while True:
        hostile.incoming.write(await client.reader.read(1 << 16))
        try:
            hostile.tls.do_handshake()
        except ssl.SSLWantReadError:
            continue
        break
    client.writer.write(hostile.outgoing.read())
    return client


async def talk_and_damage(server: Harness, hostile: Hostile) -> None:
    client = await shake_hands(server, hostile)
    hostile.tls.write(heartbeat_frame(1) * 3)
    client.writer.write(hostile.damaged(hostile.outgoing.read()))
    client.writer.write_eof()
    with contextlib.suppress(ConnectionError):
        await client.reader.read()
    client.abort()


@pytest.mark.parametrize(("updates", "is_served"), [(3, True), (10_000, False)])
def test_a_client_that_only_updates_its_keys_is_disconnected(
    wanted: ListenerTls,  # noqa: F811
    tmp_path: Path,
    updates: int,
    is_served: bool,
) -> None:
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, _):
            notes = notes_of(asyncio.get_running_loop())
            hostile = Hostile(random.Random(SEED), tmp_path / "secrets")
            client = await shake_hands(server, hostile)
            writer = Writer.from_secrets(tmp_path / "secrets")
            flood = b"".join(writer.key_update() for _ in range(updates))
            client.writer.write(flood + writer.data(heartbeat_frame(1)))
            assert (await received(client, hostile) is not None) is is_served
            client.abort()
            await check_serves(server, notes)

    run()


async def received(client: Client, hostile: Hostile) -> bytes | None:
    """The next decrypted bytes; None at the end."""
    while True:
        try:
            return hostile.tls.read(1 << 16) or None
        except ssl.SSLWantReadError:
            pass
        with contextlib.suppress(ConnectionError):
            if data := await client.reader.read(1 << 16):
                hostile.incoming.write(data)
                continue
        return None


def test_a_request_too_long_before_authentication_is_refused_under_tls_too(wanted: ListenerTls) -> None:  # noqa: F811
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, connect):
            server.server.listeners[0].security_protocol = "SASL_SSL"
            client = await connect()
            await client.send((600_000).to_bytes(4, "big") + bytes(100))
            assert await client.is_closed()
            assert server.server.closed["length"] == 1

    run()
