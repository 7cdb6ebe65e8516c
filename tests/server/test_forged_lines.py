"""What clients send cannot forge lines of the broker's log, nor fill it."""

from __future__ import annotations

import asyncio
import logging
import struct
from pathlib import Path

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.cluster import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.server.broker import Broker
from tests.server.harness import Client, frame, scenario

FORGED = "t\n2026-11-16 12:00:00,000 CRITICAL barnabas.server.broker: no log dir is left\x1b[2J"
PARTITIONS = 20_000


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """As `barnabas serve` writes them."""
    formatter = logging.Formatter("%(levelname)s %(name)s: %(message)s")
    return [line for record in caplog.records for line in formatter.format(record).split("\n")]


@scenario
async def test_one_request_with_20_000_bad_names_leaves_a_handful_of_lines_and_none_is_forged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=FORGED, topics=[AlterReplicaLogDirTopic(name=FORGED, partitions=list(range(PARTITIONS)))]
            )
        ]
    )
    async with _broker(tmp_path) as client:
        caplog.clear()
        await client.send(frame(request, 2))
        answer = await client.response()
    _, decoded, _ = decode_response(request.api_key, 2, AlterReplicaLogDirsResponse, memoryview(answer))
    assert len(decoded.results[0].partitions) == PARTITIONS
    lines = _lines(caplog)
    assert len([line for line in lines if "is not moved" in line]) < 20
    assert len(lines) < 30
    assert any(f"{PARTITIONS - 10} more lines like this were left out" in line for line in lines)
    _assert_none_is_forged(lines)


@scenario
async def test_names_of_groups_and_clients_forge_no_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    request = JoinGroupRequest(
        group_id=FORGED,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        reason=FORGED,
    )
    async with _broker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as client:
        await _join(client, request)
        await client.send(b"\xff\xff\xff\xff")  # closed, and its client id is named
        assert await client.is_closed()
    lines = _lines(caplog)
    assert any("rebalance" in line for line in lines)
    assert any("closed connection" in line for line in lines)
    _assert_none_is_forged(lines)


async def _join(client: Client, request: JoinGroupRequest) -> None:
    """`__consumer_offsets` is created at the first question, and loaded a moment later."""
    await client.send(frame(FindCoordinatorRequest(key=FORGED), 3))
    await client.response()
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        await client.send(frame(request, 3, client_id=FORGED))
        (code,) = struct.unpack(">h", (await client.response())[8:10])
    assert code == ErrorCode.NONE


def _assert_none_is_forged(lines: list[str]) -> None:
    assert not any(line.startswith("2026") for line in lines)
    assert all(line.isprintable() for line in lines)


class _broker:  # noqa: N801  (used as a function is)
    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        listeners = {"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0"}
        self._broker = Broker(BrokerConfig.load({**listeners, **(settings or {})}))

    async def __aenter__(self) -> Client:
        await self._broker.start()
        port = self._broker.listeners[0].port
        self._client = Client(*await asyncio.open_connection("127.0.0.1", port))
        return self._client

    async def __aexit__(self, *_: object) -> None:
        self._client.abort()
        await self._broker.stop()
