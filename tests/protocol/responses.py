"""A broker's answer as a frame, for tests of who reads it. Brokers write theirs in `network/requests/routes`."""

from __future__ import annotations

from typing import Any

from barnabas.protocol import Message, encode_parts, response_header_version
from barnabas.protocol.framing import RESPONSE_START


def encode_response(correlation_id: int, api_key: int, version: int, message: Message) -> list[Any]:
    parts = encode_parts(message, version)
    tags = bytes(response_header_version(api_key, version))
    size = RESPONSE_START.size - 4 + len(tags) + sum(map(len, parts))
    return [RESPONSE_START.pack(size, correlation_id) + tags, *parts]
