"""The HTTP server of registry, console and ingest: limits of connections in number and time, in every phase."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from barnabas.web.asgi import BodyEndedError, Receive, ResponseWriter, Scope, Send, headers_of, read_body
from barnabas.web.server import MAX_DISCARDED, App, WebLimits, WebServer, bind, parse_networks
from tests.support.certificates import Authority

DEADLINE = 30.0
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await ResponseWriter(send).send(200, "text/plain", scope["scheme"].encode())


@asynccontextmanager
async def serving(
    tls: ssl.SSLContext | None = None, app: App | None = None, **limits: Any
) -> AsyncIterator[int]:
    listening = bind("127.0.0.1", 0)
    server = WebServer(app or hello, tls, WebLimits(**limits))
    await server.start(listening)
    try:
        yield listening.getsockname()[1]
    finally:
        while _opened:
            writer = _opened.pop()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await server.stop()


_opened: list[asyncio.StreamWriter] = []
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def opened(port: int, source: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Connection:
    """A connection that ends with the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, local_addr=(source, 0))
    _opened.append(writer)
    return reader, writer


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of the server and of a client."""
    authority = Authority()
    signed = authority.sign("web", "127.0.0.1")
    (folder / "web.pem").write_text(signed.certificate_pem + signed.key_pem())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "web.pem")
    return server, ssl.create_default_context(cadata=authority.pem)


async def asked(port: int, tls: ssl.SSLContext | None = None, source: str = "127.0.0.1") -> bytes:
    """The body of an answer; nothing if the connection is closed."""
    async with asyncio.timeout(DEADLINE):
        try:
            reader, writer = await opened(port, source, tls)
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError):
            return b""
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        return await reader.readexactly(int(length.split(b":")[1]))


def test_requests_are_served_over_tls_and_without_it(tmp_path: Path) -> None:
    remote, ours = contexts(tmp_path)

    async def scenario() -> None:
        async with serving(connections=5) as port:
            assert await asked(port, None) == b"http"
        async with serving(remote, connections=6) as port:
            assert await asyncio.gather(*(asked(port, ours) for _ in range(3))) == [b"https"] * 3

    asyncio.run(scenario())


def test_connections_that_never_shake_hands_count_and_those_beyond_the_limit_are_closed(
    tmp_path: Path,
) -> None:
    remote, ours = contexts(tmp_path)

    async def scenario() -> None:
        async with serving(remote, connections=3, incomplete_per_address=3) as port:
            silent = [await opened(port) for _ in range(3)]
            assert await asked(port, ours) == b""
            for _, writer in silent[:2]:
                writer.write(b"no TLS at all\r\n\r\n")  # a handshake that fails is not counted any more
            for reader, _ in silent[:2]:
                await asyncio.wait_for(reader.read(), DEADLINE)
            while not await asked(port, ours):  # the server may not have seen the end of both yet
                pass

    asyncio.run(asyncio.wait_for(scenario(), 2 * DEADLINE))


async def echo_length(scope: Scope, receive: Receive, send: Send) -> None:
    with contextlib.suppress(BodyEndedError):
        body = await read_body(headers_of(scope), receive, 1 << 20)
        await ResponseWriter(send).send(200, "text/plain", str(len(body)).encode())


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """As an application that authenticates before it reads a body."""
    await ResponseWriter(send).send(401, "text/plain", b"no")


def head(length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length


async def half_sent(port: int, source: str = "127.0.0.1") -> Connection:
    reader, writer = await opened(port, source)
    writer.write(head(100) + b"half")
    return reader, writer


async def rest_of(connection: Connection) -> bytes:
    """Everything until the server closes."""
    try:
        return await asyncio.wait_for(connection[0].read(), DEADLINE)
    except ConnectionError:
        return b""


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 2 * DEADLINE))


def test_half_sent_bodies_of_one_address_leave_half_of_the_connections_to_others() -> None:
    async def scenario() -> None:
        async with serving(app=echo_length, connections=20) as port:
            held = [await half_sent(port) for _ in range(30)]
            closed = [asyncio.create_task(rest_of(each)) for each in held]
            done, waiting = await asyncio.wait(closed, timeout=0.5)
            while len(done) < 20:
                more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                done |= more
            assert await asyncio.gather(*(asked(port, source="127.0.0.2") for _ in range(10))) == [b"0"] * 10
            assert len(waiting) == 10

    run(scenario)


def test_connections_of_a_trusted_proxy_are_limited_in_total_only() -> None:
    async def scenario() -> None:
        proxies = (ip_network("127.0.0.1"),)
        async with serving(app=echo_length, connections=20, trusted_proxies=proxies) as port:
            held = [await half_sent(port) for _ in range(19)]
            assert await asked(port) == b"0"
            for _, writer in held:
                writer.write(b"x" * 96)
            for reader, _ in held:
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

    run(scenario)


def test_idle_and_busy_connections_of_one_address_do_not_count_as_incomplete() -> None:
    async def scenario() -> None:
        async with serving(connections=20, incomplete_per_address=1) as port:
            kept = [await opened(port) for _ in range(1)]
            for _ in range(15):
                reader, writer = kept[-1]
                writer.write(REQUEST)
                await reader.readuntil(b"http")
                kept.append(await opened(port))
            assert len(kept) == 16

    run(scenario)


@pytest.mark.parametrize("sent", [b"POST / HT", head(100), head(100) + b"half"])
def test_a_request_that_never_ends_is_answered_with_408_and_closed(sent: bytes) -> None:
    async def scenario() -> None:
        async with serving(app=echo_length, head_seconds=0.3, body_seconds=0.3) as port:
            connection = await opened(port)
            connection[1].write(sent)
            answer = await rest_of(connection)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"smaller parts" in answer

    run(scenario)


def test_a_body_below_the_minimum_rate_is_closed_and_one_above_it_is_served() -> None:
    async def scenario() -> None:
        async with serving(app=echo_length, body_grace=0.2, body_rate=1000) as port:
            slow, fast = [await opened(port) for _ in range(2)]
            for _, writer in (slow, fast):
                writer.write(head(10_000))
            answer, sent = asyncio.create_task(rest_of(slow)), 0
            while not answer.done():
                slow[1].write(b"x")
                if sent < 9_000:
                    fast[1].write(b"x" * 500)
                    sent += 500
                await asyncio.wait([answer], timeout=0.02)
            assert answer.result().startswith(b"HTTP/1.1 408 ")
            fast[1].write(b"x" * (10_000 - sent))
            assert b"10000" in await asyncio.wait_for(fast[0].readuntil(b"10000"), DEADLINE)

    run(scenario)


def test_a_full_server_closes_the_connection_that_has_been_idle_longest() -> None:
    async def scenario() -> None:
        async with serving(connections=3) as port:
            kept = []
            for _ in range(3):
                reader, writer = await opened(port)
                writer.write(REQUEST)
                await reader.readuntil(b"http")
                kept.append((reader, writer))
            assert await asked(port, source="127.0.0.2") == b"http"
            assert await rest_of(kept[0]) == b""
            kept[1][1].write(REQUEST)
            await kept[1][0].readuntil(b"http")

    run(scenario)


def test_a_client_that_does_not_read_its_answer_is_closed() -> None:
    left = asyncio.Event()

    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * (1 << 16), "more_body": True})
        await receive()
        left.set()

    async def scenario() -> None:
        async with serving(app=flood, answer_seconds=0.3) as port:
            _, writer = await opened(port)
            writer.write(REQUEST)
            await asyncio.wait_for(left.wait(), DEADLINE)

    run(scenario)


def test_a_refused_body_is_discarded_up_to_a_bound_and_then_the_connection_is_closed() -> None:
    async def scenario() -> None:
        async with serving(app=refuse) as port:
            reader, writer = await opened(port)
            for _ in range(2):  # the connection can be used again
                writer.write(head(MAX_DISCARDED // 2))
                assert (await reader.readuntil(b"\r\n\r\nno")).startswith(b"HTTP/1.1 401 ")
                writer.write(b"x" * (MAX_DISCARDED // 2))
            writer.write(head(1 << 30))
            answer = await reader.readuntil(b"\r\n\r\nno")
            assert answer.startswith(b"HTTP/1.1 401 ")
            assert b"connection: close" in answer.lower()
            sent = 0
            try:
                while not reader.at_eof() and sent < 100 << 20:
                    writer.write(b"x" * 65536)
                    sent += 65536
                    await asyncio.wait_for(writer.drain(), DEADLINE)
                    await asyncio.sleep(0)
            except ConnectionError:
                pass
            assert sent < 100 << 20

    run(scenario)


def test_trusted_proxies_are_addresses_and_networks() -> None:
    assert parse_networks(["10.0.0.5", "fd00::/8 "]) == (ip_network("10.0.0.5"), ip_network("fd00::/8"))
    with pytest.raises(ValueError, match=r"not a valid address or network: 'proxy'"):
        parse_networks(["proxy"])
    with pytest.raises(ValueError, match="must be greater than 0"):
        WebLimits(body_rate=0)
