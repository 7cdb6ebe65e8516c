"""3,000 connections of kafka-go for five minutes: `make endurance`.

PEER_CONNECTIONS, PEER_SECONDS and PEER_PAUSE change that.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.peers import peer
from tests.support.brokers import BrokerProcess
from tests.support.topics import create_topic, read_to_end

CONNECTIONS = int(os.environ.get("PEER_CONNECTIONS", "3000"))
SECONDS = int(os.environ.get("PEER_SECONDS", "300"))
PAUSE = float(os.environ.get("PEER_PAUSE", "10"))  # between two turns of one connection
PARTITIONS = 30
# Allowed memory per connection: buffers, a parser, table rows.
BYTES_PER_CONNECTION = 64 * 1024
SLOWEST_P99_MS = 1000.0


@pytest.mark.extended
@pytest.mark.timeout(SECONDS + 300)
def test_three_thousand_connections_write_and_read_back_without_a_loss(tmp_path: Path) -> None:
    peer.require("connections")
    with BrokerProcess(tmp_path) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, "many", PARTITIONS)
        before = broker.memory_peak
        working = peer.start(
            "connections",
            "connections",
            servers,
            topic="many",
            count=CONNECTIONS,
            partitions=PARTITIONS,
            seconds=SECONDS,
            pause=PAUSE,
        )
        figures = working.wait(SECONDS + 120).figures
        grown = broker.memory_peak - before
        stored = read_to_end(servers, "many", PARTITIONS)

    names = {message.key() for message in stored}
    print(f"\n{CONNECTIONS} connections, {SECONDS} s: {figures}, {grown / 1e6:.0f} MB more at the peak")  # noqa: T201
    assert figures["unreadable"] == 0
    assert len(stored) == len(names) == figures["written"]
    assert figures["written"] >= CONNECTIONS * SECONDS / PAUSE / 2
    assert grown <= CONNECTIONS * BYTES_PER_CONNECTION
    assert max(figures["write_p99_ms"], figures["read_p99_ms"]) <= SLOWEST_P99_MS
