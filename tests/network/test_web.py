"""The HTTP server of the registry and of the gateway: connections are bounded, also while they shake hands."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from barnabas.web.server import Receive, Scope, Send, WebServer, bind, send_answer
from tests.certificates import Authority

DEADLINE = 30.0
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send_answer(send, 200, scope["scheme"].encode(), "text/plain")


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None, connections: int) -> AsyncIterator[int]:
    listening = bind("127.0.0.1", 0)
    server = WebServer(hello, tls, connections)
    await server.start(listening)
    try:
        yield listening.getsockname()[1]
    finally:
        await server.stop()


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of the server and of a client."""
    authority = Authority()
    signed = authority.sign("web", "127.0.0.1")
    (folder / "web.pem").write_text(signed.certificate_pem + signed.key_pem())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "web.pem")
    return server, ssl.create_default_context(cadata=authority.pem)


async def asked(port: int, tls: ssl.SSLContext | None) -> bytes:
    """The body of an answer; nothing if the connection is closed."""
    async with asyncio.timeout(DEADLINE):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError):
            return b""
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        body = await reader.readexactly(int(length.split(b":")[1]))
        writer.close()
        return body


def test_requests_are_served_over_tls_and_without_it(tmp_path: Path) -> None:
    theirs, ours = contexts(tmp_path)

    async def scenario() -> None:
        async with serving(None, 5) as port:
            assert await asked(port, None) == b"http"
        async with serving(theirs, 5) as port:
            assert await asyncio.gather(*(asked(port, ours) for _ in range(3))) == [b"https"] * 3

    asyncio.run(scenario())


def test_connections_that_never_shake_hands_count_and_those_beyond_the_limit_are_closed(
    tmp_path: Path,
) -> None:
    theirs, ours = contexts(tmp_path)

    async def scenario() -> None:
        async with serving(theirs, 3) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            assert await asked(port, ours) == b""
            for _, writer in silent[:2]:
                writer.write(b"no TLS at all\r\n\r\n")  # a handshake that fails is not counted any more
            for reader, _ in silent[:2]:
                await asyncio.wait_for(reader.read(), DEADLINE)
            while not await asked(port, ours):  # the server may not have seen the end of both yet
                pass
            for _, writer in silent:
                writer.close()

    asyncio.run(asyncio.wait_for(scenario(), 2 * DEADLINE))
