"""Metrics and health over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.metrics.catalogue import BYTES_IN
from barnabas.metrics.registry import Registry, Sample
from barnabas.web.metrics_server import (
    CHUNK_BYTES,
    HEAD_BYTES,
    MetricsServer,
    MetricsServerLimits,
    metrics_server_limits,
    run_in_thread,
)
from tests.support.server import scenario
from tests.support.waiting import async_until


@asynccontextmanager
async def monitoring(
    healthy: bool = True, *, samples: int = 2000, limits: MetricsServerLimits | None = None
) -> AsyncIterator[MetricsServer]:
    registry = Registry()
    registry.computed(
        BYTES_IN, lambda: [Sample("", (("topic", str(number)),), number) for number in range(samples)]
    )
    server = MetricsServer(
        registry,
        lambda: (healthy, {"status": "up" if healthy else "down"}),
        limits,
    )
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop()


async def ask(server: MetricsServer, request: bytes) -> tuple[int, str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return (int(head.split()[1]) if head else 0), head, body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


@scenario
async def test_metrics_are_served_as_prometheus_text() -> None:
    async with monitoring() as server:
        status, head, body = await ask(server, get("/metrics?all=1"))
        assert status == 200
        assert "Content-Type: text/plain; version=0.0.4" in head
        assert 'kafka_server_brokertopicmetrics_bytesin_total{topic="1999"} 1999\n' in body
        assert f"Content-Length: {len(body)}" in head


@pytest.mark.parametrize(("healthy", "status"), [(True, 200), (False, 503)])
def test_health_is_a_status_and_details(healthy: bool, status: int) -> None:
    @scenario
    async def run() -> None:
        async with monitoring(healthy) as server:
            got, _, body = await ask(server, get("/health"))
            assert got == status
            assert json.loads(body)["status"] == ("up" if healthy else "down")

    run()


@scenario
async def test_a_head_request_gets_no_body() -> None:
    async with monitoring() as server:
        status, head, body = await ask(server, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert (status, body) == (200, "")
        assert "Content-Length: " in head


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), 404),
        (get("/metrics/../etc"), 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 405),
        (b"GET /" + b"x" * (2 * HEAD_BYTES) + b" HTTP/1.1\r\n\r\n", 0),
    ],
)
def test_anything_else_is_refused(request_bytes: bytes, status: int) -> None:
    @scenario
    async def run() -> None:
        async with monitoring() as server:
            try:
                assert (await ask(server, request_bytes))[0] == status
            except ConnectionError:
                assert status == 0
            assert (await ask(server, get("/health")))[0] == 200

    run()


@scenario
async def test_silent_client_does_not_delay_the_stop() -> None:
    async with monitoring(limits=MetricsServerLimits(request_seconds=3600)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await async_until(lambda: bool(server._open))
        await server.stop()
        assert await reader.read() == b""
        writer.close()


# Clients that do not read

MANY = 60_000  # samples: more than the kernel takes for a client that does not read


def silent_client(server: MetricsServer, request: bytes = b"") -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    client.sendall(request)
    return client


@scenario
async def test_clients_that_never_read_are_cut_off_after_a_while() -> None:
    async with monitoring(samples=MANY, limits=MetricsServerLimits(answer_seconds=0.2)) as server:
        clients = [silent_client(server, get("/metrics")) for _ in range(4)]
        await async_until(lambda: len(server._sending) == 4)
        await async_until(lambda: not server._open)
        assert not server._sending
        assert server._cut_off.value == 4
        for client in clients:
            client.close()


@scenario
async def test_clients_that_never_read_give_way_to_others_at_once() -> None:
    async with monitoring(
        samples=MANY, limits=MetricsServerLimits(answer_seconds=3600, request_seconds=3600)
    ) as server:
        clients = [silent_client(server, get("/metrics")) for _ in range(32)]
        await async_until(lambda: len(server._sending) == 8)
        clients += [silent_client(server) for _ in range(32)]  # nor does it respond
        await async_until(lambda: len(server._open) == 32)
        for _ in range(3):
            status, head, body = await ask(server, get("/metrics"))
            assert status == 200
            assert f"Content-Length: {len(body)}" in head
            assert (await ask(server, get("/health")))[0] == 200
        assert len(server._open) < 32
        for client in clients:
            client.close()


@scenario
async def test_answers_for_slow_readers_are_not_kept_in_many_copies() -> None:
    async with monitoring(samples=MANY, limits=MetricsServerLimits(answer_seconds=3600)) as server:
        clients = [silent_client(server, get("/metrics")) for _ in range(32)]
        await async_until(lambda: len(server._sending) == 8 == len(server._open))
        buffered = [writer.transport.get_write_buffer_size() for writer in server._open]
        assert max(buffered) <= 2 * CHUNK_BYTES
        for client in clients:
            client.close()


@scenario
async def test_concurrent_requests_share_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = []

    def render(registry: Registry) -> list[str]:
        rendered.append(1)
        return ["line\n"] * 2000

    monkeypatch.setattr("barnabas.web.metrics_server.render_lines", render)
    async with monitoring() as server:
        answers = await asyncio.gather(*(ask(server, get("/metrics")) for _ in range(10)))
        assert {status for status, _, _ in answers} == {200}
        assert len(rendered) < 10
        await ask(server, get("/metrics"))
        assert server._rendering is None


def test_the_limits_are_settings() -> None:
    limits = metrics_server_limits(
        BrokerConfig.load(
            {
                "barnabas.metrics.max.connections": "3",
                "barnabas.metrics.max.large.answers": "2",
                "barnabas.metrics.request.timeout.ms": "1500",
                "barnabas.metrics.answer.timeout.ms": "2500",
            }
        )
    )
    assert limits == MetricsServerLimits(3, 2, 1.5, 2.5)
    assert metrics_server_limits(BrokerConfig.load({})) == MetricsServerLimits()


@scenario
async def test_fewer_connections_may_be_allowed() -> None:
    async with monitoring(limits=MetricsServerLimits(connections=2)) as server:
        clients = [silent_client(server) for _ in range(3)]
        await async_until(lambda: server._cut_off.value == 1)
        assert len(server._open) == 2
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    "headers",
    [
        "Host: attacker.example",
        "Host: 127.0.0.1\r\nOrigin: http://attacker.example",
        "Host: 127.0.0.1\r\nOrigin: null",
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/health"])
def test_pages_of_other_sites_and_foreign_names_are_refused_on_loopback(path: str, headers: str) -> None:
    @scenario
    async def run() -> None:
        async with monitoring() as server:
            status, _, body = await ask(server, f"GET {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode())
            assert (status, "127.0.0.1" in body) == (403, True)
            for good in ("Host: localhost:1", "Host: [::1]:9", "Host: 127.0.0.1", "Accept: */*"):
                assert (await ask(server, f"GET {path} HTTP/1.1\r\n{good}\r\n\r\n".encode()))[0] == 200

    run()


def test_a_program_without_a_loop_serves_metrics_from_a_thread() -> None:
    registry = Registry()
    registry.computed(BYTES_IN, lambda: [Sample("", (("topic", "a"),), 7)])
    with closing(run_in_thread(registry, "127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as response:
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert f'{BYTES_IN.name}{{topic="a"}} 7' in response.read().decode()
        with urllib.request.urlopen(f"{url}/health", timeout=30) as response:
            assert json.load(response) == {"status": "up"}
        with pytest.raises(OSError, match="in use"):
            run_in_thread(Registry(), "127.0.0.1", server.port)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/metrics", timeout=30)
    assert "metrics" not in [thread.name for thread in threading.enumerate()]


def test_a_client_that_does_not_read_does_not_keep_the_thread_running() -> None:
    registry = Registry()
    registry.computed(
        BYTES_IN, lambda: [Sample("", (("topic", str(number)),), number) for number in range(MANY)]
    )
    with closing(run_in_thread(registry, "127.0.0.1", 0)) as server:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        client.sendall(get("/metrics"))
        assert client.recv(1) == b"H"
    with client, suppress(ConnectionResetError):
        while client.recv(1 << 20):
            pass
