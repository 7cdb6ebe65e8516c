"""Broker-only requests with many elements are rejected before they are decoded."""

from __future__ import annotations

from pathlib import Path

from barnabas.protocol.messages.share_state import (
    ReadShareGroupStateRequest,
    ReadStateData,
)
from tests.support.server import frame, raw_broker, scenario


@scenario
async def test_a_large_request_that_only_brokers_send_is_not_even_decoded(tmp_path: Path) -> None:
    topics = [ReadStateData(topic_id=bytes(16))] * 5_000
    async with raw_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.send(frame(ReadShareGroupStateRequest(group_id="g", topics=topics), 0))
        assert await client.reader.read() == b""
