"""Metrics and health over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from barnabas.metrics.catalogue import BYTES_IN
from barnabas.metrics.registry import Registry, Sample
from barnabas.server.http import HEAD_BYTES, MonitoringServer
from tests.server.harness import scenario, until


@asynccontextmanager
async def monitoring(healthy: bool = True) -> AsyncIterator[MonitoringServer]:
    registry = Registry()
    registry.computed(
        BYTES_IN, lambda: [Sample("", (("topic", str(number)),), number) for number in range(2000)]
    )
    server = MonitoringServer(registry, lambda: (healthy, {"status": "up" if healthy else "down"}))
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop()


async def ask(server: MonitoringServer, request: bytes) -> tuple[int, str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return (int(head.split()[1]) if head else 0), head, body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


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
async def test_a_client_that_says_nothing_does_not_hold_up_the_stop() -> None:
    async with monitoring() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await until(lambda: bool(server._open))
        await asyncio.wait_for(server.stop(), 2)
        assert await reader.read() == b""
        writer.close()
