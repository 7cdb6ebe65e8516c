"""Lookups in a log of 1 TB compared with a log of 1 GB on the same broker: `make endurance`."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from benchmarks import wire
from tests.peers.sparse_log import Target, make_sparse_log
from tests.support.brokers import BrokerProcess
from tests.support.clients import RawConnection
from tests.support.topics import create_topic

SEGMENTS = {"gigabyte": 1, "terabyte": 1024}
LOOKUPS = 2000
# A lookup in the larger log opens segments on demand, and bisects a longer list.
MAX_TIMES_SLOWER = 10.0
MAX_START_SECONDS = 30.0
MAX_REAL_BYTES = 2 << 30


@pytest.mark.extended
def test_lookups_in_a_terabyte_take_milliseconds(tmp_path: Path) -> None:
    """The smaller log is measured in turns with the larger one, so that other work on the machine slows both."""
    began = int(time.time() * 1000) - 86_400_000
    with BrokerProcess(tmp_path) as broker:
        for topic in SEGMENTS:
            create_topic(broker.bootstrap_servers, topic, 1, **{"retention.ms": "-1"})
    targets = {
        topic: make_sparse_log(tmp_path / f"{topic}-0", segments, began)
        for topic, segments in SEGMENTS.items()
    }
    real = sum(path.stat().st_blocks * 512 for path in (tmp_path / "terabyte-0").iterdir())
    assert sum(path.stat().st_size for path in (tmp_path / "terabyte-0").iterdir()) >= 1 << 40
    assert real < MAX_REAL_BYTES
    starting = time.monotonic()
    with BrokerProcess(tmp_path) as broker, RawConnection(broker.port) as connection:
        started = time.monotonic() - starting
        taken = {
            look_up.__name__: in_turns(look_up, connection, targets) for look_up in (by_offset, by_timestamp)
        }
        memory = broker.memory_peak

    print(f"\nstarted in {started:.1f} s, {memory / 1e6:.0f} MB, {real / 1e6:.0f} MB on disk")  # noqa: T201
    for name, by_topic in taken.items():
        p99 = {topic: percentile(times, 99) for topic, times in by_topic.items()}
        p50 = {topic: percentile(times, 50) for topic, times in by_topic.items()}
        print(f"{name}: p50 {p50} ms, p99 {p99} ms")  # noqa: T201
        assert p50["terabyte"] <= MAX_TIMES_SLOWER * p50["gigabyte"]
        assert p99["terabyte"] <= MAX_TIMES_SLOWER * max(p99["gigabyte"], 1.0)
    assert started < MAX_START_SECONDS


Lookup = Callable[[RawConnection, str, Target], None]


def in_turns(
    look_up: Lookup, connection: RawConnection, targets: dict[str, list[Target]]
) -> dict[str, list[float]]:
    """Milliseconds of each lookup, at positions drawn from a fixed seed."""
    draw = random.Random(25)
    taken: dict[str, list[float]] = {topic: [] for topic in targets}
    for _ in range(LOOKUPS):
        for topic, possible in targets.items():
            target = draw.choice(possible)
            began = time.perf_counter()
            look_up(connection, topic, target)
            taken[topic].append((time.perf_counter() - began) * 1000)
    return taken


def by_offset(connection: RawConnection, topic: str, target: Target) -> None:
    """A fetch of the one small batch."""
    connection.send(wire.fetch_frame(topic, 0, target.offset, max_bytes=200))
    body = connection.receive()
    assert body is not None
    assert wire.fetch_error(topic, struct.pack(">i", len(body)) + body) == 0
    assert struct.pack(">q", target.offset) in body
    assert b"s" * 100 in body


def by_timestamp(connection: RawConnection, topic: str, target: Target) -> None:
    requested = ListOffsetsPartition(partition_index=0, timestamp=target.timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[requested])])
    answer = connection.ask(request, 5)
    assert isinstance(answer, ListOffsetsResponse)
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.offset, found.timestamp) == (0, *target)


def percentile(times: list[float], percent: int) -> float:
    return round(sorted(times)[len(times) * percent // 100], 3)
