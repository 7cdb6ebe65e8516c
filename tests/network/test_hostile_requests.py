"""A complete broker under requests that no honest client sends.

Random messages of every API in every version it serves, most of them about a topic that exists, then damaged. For
each the broker answers or closes the connection; it never fails with an exception that nobody expected, never
answers UNKNOWN_SERVER_ERROR anywhere in a response, and serves its other clients afterwards as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.broker import Broker
from barnabas.common.errors import ErrorCode
from barnabas.config.broker import BrokerConfig
from barnabas.handlers.table import HANDLERS
from barnabas.network.requests import Handler
from barnabas.protocol.api import ApiKey, response_class
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.metadata import ApiVersionsRequest
from barnabas.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.schema import Message, Struct
from tests.support.builders.messages import encode_response, sample
from tests.support.server import Client, frame

TOPIC = "known"
DAMAGED_REQUESTS = 10_000
SOUND_REQUESTS = 1_000
SERVED = {handler.request_class.api_key: handler for handler in HANDLERS}
HEADER_BYTES = 14  # API key, version, correlation id, and "test" as client id


@pytest.mark.slow
def test_damaged_requests_of_every_api_affect_no_other_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = random.Random(20)
    asyncio.run(_attack(tmp_path, [damaged(_random_frame(source), source) for _ in range(DAMAGED_REQUESTS)]))
    assert _failures(caplog) == []


def test_valid_requests_with_random_content_affect_no_other_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = random.Random(21)
    asyncio.run(_attack(tmp_path, [_random_frame(source) for _ in range(SOUND_REQUESTS)]))
    assert _failures(caplog) == []


def test_an_unknown_server_error_is_found_wherever_it_is_in_an_answer() -> None:
    row = CreatableTopicResult(name="t", error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    answer = encode_response(1, 19, 5, CreateTopicsResponse(topics=[CreatableTopicResult(name="s"), row]))
    sent = frame(CreateTopicsRequest(), 5, 1)
    assert list(_unknown_errors(sent, b"".join(answer))) == ["CreateTopicsResponse.topics.error_code"]


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
        answered = 0
        for data in frames:
            answer = await _exchange(port, data)
            answered += bool(answer)
            assert list(_unknown_errors(data, answer)) == []
        assert answered > len(frames) // 5  # or this would show nothing
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


def _unknown_errors(data: bytes, answer: bytes) -> Iterator[str]:
    """Paths of UNKNOWN_SERVER_ERROR in the response to a frame. Every response must be decodable to its last byte."""
    if not answer:
        return
    api_key, version, correlation_id = struct.unpack_from(">hhi", data, 4)
    (length,) = struct.unpack_from(">i", answer)
    body = memoryview(answer)[4 : 4 + length]
    if api_key == ApiKey.API_VERSIONS and not 0 <= version <= SERVED[api_key].max_version:
        version = 0  # a version that is not served is answered in the first one (KIP-511)
    echoed, message, end = decode_response(api_key, version, response_class(api_key), body)
    assert (echoed, end) == (correlation_id, length)
    yield from _unknown_in(message, type(message).__name__)


def _unknown_in(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _unknown_in(item, where)
    elif isinstance(value, Struct):
        for field in value.FIELDS:
            yield from _unknown_in(getattr(value, field.name), f"{where}.{field.name}")
    elif where.endswith("error_code") and value == ErrorCode.UNKNOWN_SERVER_ERROR:
        yield where


async def _is_served(port: int) -> bool:
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    await client.send(frame(ApiVersionsRequest(), 0, 77))
    answer = await client.response()
    client.abort()
    return struct.unpack_from(">ih", answer) == (77, 0)


def _failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Logged tracebacks, once per location."""
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
        # The API of this header: mostly unchanged, so that handlers are reached.
        first = 0 if source.random() < 0.05 else min(HEADER_BYTES, len(changed))
        position = source.randrange(first, len(changed) + 1)
        removed = added = 1
        if source.random() < 0.3:
            removed, added = source.randrange(3), source.randrange(3)
        changed[position : position + removed] = source.randbytes(added)
    length = len(changed) if source.random() < 0.9 else source.randrange(-5, 2 * len(changed))
    return struct.pack(">i", length) + bytes(changed)
