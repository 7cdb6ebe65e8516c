"""A whole broker under requests that no honest client sends.

Random messages of every API in every version it serves, most of them about a topic that exists, then damaged. For
each the broker answers or closes the connection; it never fails with an exception that nobody expected, never
answers UNKNOWN_SERVER_ERROR to a produce, and serves its other clients afterwards as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.protocol.messages.metadata import ApiVersionsRequest
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.schema import Message, Struct
from barnabas.server.broker import Broker
from barnabas.server.dispatch import Handler
from barnabas.server.handlers import HANDLERS
from tests.protocol.samples import sample
from tests.server.harness import Client, frame

TOPIC = "known"
DAMAGED_REQUESTS = 10_000
SOUND_REQUESTS = 1_000
HEADER_BYTES = 14  # API key, version, correlation id, and "test" as client id


@pytest.mark.slow
def test_damaged_requests_of_every_api_disturb_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = random.Random(20)
    asyncio.run(_attack(tmp_path, [damaged(_random_frame(source), source) for _ in range(DAMAGED_REQUESTS)]))
    assert _failures(caplog) == []


def test_sound_requests_full_of_nonsense_disturb_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = random.Random(21)
    asyncio.run(_attack(tmp_path, [_random_frame(source) for _ in range(SOUND_REQUESTS)]))
    assert _failures(caplog) == []


async def _attack(folder: Path, frames: list[bytes]) -> None:
    broker = Broker(BrokerConfig.load({"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0"}))
    await broker.start()
    port = broker.listeners[0].port
    broker.listeners[0].serves_brokers = True  # so that the handlers of brokers' requests are reached, too
    try:
        creation = CreateTopicsRequest(
            topics=[CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)]
        )
        await _exchange(port, frame(creation, 5))
        for data in frames:
            await _exchange(port, data)
        assert await _is_served(port)
        assert broker.sockets.memory.used == 0
    finally:
        await broker.stop()


async def _exchange(port: int, data: bytes) -> bytes:
    """Send a request and the end of the stream: nothing is waited for longer than the broker wants to answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        writer.write_eof()
        answer = await reader.read()
    writer.close()
    return answer


async def _is_served(port: int) -> bool:
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    await client.send(frame(ApiVersionsRequest(), 0, 77))
    answer = await client.response()
    client.abort()
    return struct.unpack_from(">ih", answer) == (77, 0)


def _failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the broker logged with a traceback, once for each place."""
    seen = {}
    for record in caplog.records:
        if record.levelno >= logging.ERROR:
            text = logging.Formatter().format(record)
            seen[text.splitlines()[-1] + text.splitlines()[-3]] = text
    return list(seen.values())


def _random_frame(source: random.Random) -> bytes:
    handler: Handler = source.choice(HANDLERS)
    version = source.randint(handler.min_version, handler.max_version)
    message: Message = sample(handler.request_class, version, source)
    _aim(message, source)
    return frame(message, version, source.randrange(2**31))


def _aim(struct_: Struct, source: random.Random) -> None:
    """Let most requests be about a topic and partitions that exist, and ask for nothing that takes long."""
    for field in struct_.FIELDS:
        value: Any = getattr(struct_, field.name)
        if isinstance(value, list):
            for item in value:
                if isinstance(item, Struct):
                    _aim(item, source)
        elif field.name in ("topic", "name", "topic_name") and source.random() < 0.7:
            setattr(struct_, field.name, TOPIC)
        elif field.name in ("index", "partition", "partition_index") and source.random() < 0.7:
            setattr(struct_, field.name, source.randrange(2))


def damaged(data: bytes, source: random.Random) -> bytes:
    """The frame with a few bytes changed, removed or added, and its length corrected (mostly)."""
    changed = bytearray(data[4:])
    for _ in range(source.randint(1, 3)):
        # The header says which API this is: mostly left alone, so that handlers are reached.
        first = 0 if source.random() < 0.05 else min(HEADER_BYTES, len(changed))
        position = source.randrange(first, len(changed) + 1)
        removed = added = 1
        if source.random() < 0.3:
            removed, added = source.randrange(3), source.randrange(3)
        changed[position : position + removed] = source.randbytes(added)
    length = len(changed) if source.random() < 0.9 else source.randrange(-5, 2 * len(changed))
    return struct.pack(">i", length) + bytes(changed)
