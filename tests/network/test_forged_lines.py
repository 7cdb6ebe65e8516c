"""Clients can neither forge nor flood lines of the broker's log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from barnabas.protocol.messages.cluster import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from barnabas.protocol.messages.metadata import ApiVersionsRequest
from tests.support.server import ask, raw_broker, scenario

FORGED = "t\n2026-11-16 12:00:00,000 CRITICAL barnabas.broker.broker: no log dir is left\x1b[2J"
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
    async with raw_broker(tmp_path) as broker:
        caplog.clear()
        answer = await ask(await broker.connect(), request, 2)
    assert len(answer.results[0].partitions) == PARTITIONS
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
    async with raw_broker(tmp_path, group_initial_rebalance_delay_ms="0") as broker:
        client = await broker.connect()
        await ask(client, ApiVersionsRequest(), 0, client_id=FORGED)
        assert (await broker.coordinator_answers(client, request, 3, FORGED, 0)).error_code == 0
        await ask(client, ApiVersionsRequest(), 0, client_id=FORGED)
        await client.send(b"\xff\xff\xff\xff")  # closed, and its client id is named
        assert await client.is_closed()
    lines = _lines(caplog)
    assert any("rebalance" in line for line in lines)
    assert any("closed connection" in line for line in lines)
    _assert_none_is_forged(lines)


def _assert_none_is_forged(lines: list[str]) -> None:
    assert not any(line.startswith("2026") for line in lines)
    assert all(line.isprintable() for line in lines)
