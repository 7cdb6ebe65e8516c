"""Frames: a length, a header, and one request or response.

    request   length int32 | api key int16 | version int16 | correlation id int32 | client id | body
    response  length int32 | correlation id int32 | body

From an API's first flexible version on, both headers end in tagged fields (request header version 2, response
header version 1). The ApiVersions response never has them: its reader does not know yet which versions the
broker supports (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any, Final, NamedTuple

from barnabas.protocol.api import APIS, ApiKey
from barnabas.protocol.codec import decoder, decoder_in_steps, encoder, finished
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError, skip_tagged_fields

PEER_CLIENT_ID = "barnabas-broker-"
"""Prefix of the client ids of brokers that connect to other brokers."""

_INT32 = struct.Struct(">i")
LENGTH_BYTES: Final = _INT32.size
decode_length: Final = _INT32.unpack_from

# Fixed start of a request: the length of the rest, API key and version as one number (the route key), the
# correlation id, and the length of the client id.
_REQUEST_START = struct.Struct(">iiih")
REQUEST_START_BYTES: Final = _REQUEST_START.size
MIN_REQUEST: Final = REQUEST_START_BYTES - LENGTH_BYTES
decode_request_start: Final = _REQUEST_START.unpack_from

# The same without the length of the frame.
_REQUEST_HEADER = struct.Struct(">hhih")

RESPONSE_START: Final = struct.Struct(">ii")  # the length of the rest, the correlation id

_FIRST_FLEXIBLE = {api_key: api.first_flexible for api_key, api in APIS.items()}
_NEVER = 0x8000


class RequestHeader(NamedTuple):
    """Header of a request; its response carries the same correlation id."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, version: int) -> int:
    """Return 2 for flexible versions of an API and 1 for others; an unknown API counts as not flexible."""
    return 2 if version >= _FIRST_FLEXIBLE.get(api_key, _NEVER) else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return 1 for flexible versions of an API and 0 for others, and always 0 for ApiVersions."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= _FIRST_FLEXIBLE.get(api_key, _NEVER) else 0


def decode_request_header(buffer: memoryview, position: int, limit: int) -> tuple[RequestHeader, int]:
    """Decode the header of a request whose frame (without its length) is between position and limit."""
    if limit != len(buffer):
        buffer = buffer[:limit]
    try:
        api_key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(buffer, position)
        position += 10
        client_id = decode_client_id(buffer, position, limit, length)
        position += max(length, 0)
        if version >= _FIRST_FLEXIBLE.get(api_key, _NEVER):
            position = skip_tagged_fields(buffer, position)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"request header: {error}") from error
    if position > limit:
        raise ProtocolError("request header runs beyond its frame")
    return RequestHeader(api_key, version, correlation_id, client_id), position


def decode_client_id(buffer: memoryview, position: int, limit: int, length: int) -> str | None:
    """Decode the client id of a request that ends at `limit`; a length of -1 is null."""
    if length == -1:
        return None
    if length < 0 or position + length > limit:
        raise ProtocolError(f"a client id of {length} bytes does not fit into the request")
    try:
        return str(buffer[position : position + length], "utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"client id: {error}") from error


def encode_request(header: RequestHeader, message: Message) -> list[Any]:
    """Encode a whole request frame into parts: `bytes`, and `records` that are not bytes as they are."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    length = -1 if header.client_id is None else len(client_id)
    out = bytearray(4)
    out += _REQUEST_HEADER.pack(header.api_key, header.api_version, header.correlation_id, length)
    out += client_id
    if request_header_version(header.api_key, header.api_version) == 2:
        out.append(0)
    return _finish_frame(message, header.api_version, out)


def _finish_frame(message: Message, version: int, out: bytearray) -> list[Any]:
    """Append the message to a frame that starts with room for its length, and fill that in."""
    parts: list[Any] = []
    last = encoder(type(message), version)(message, out, parts)
    if not parts:
        _INT32.pack_into(out, 0, len(out) - 4)
        return [bytes(out)]
    parts.append(last)
    _INT32.pack_into(out, 0, sum(map(len, parts)) - 4)
    return finished(parts)


def decode_correlation_id(buffer: memoryview, position: int = 0) -> int:
    """Return the correlation id of a response frame."""
    try:
        correlation_id: int = _INT32.unpack_from(buffer, position)[0]
    except struct.error as error:
        raise ProtocolError(f"response header: {error}") from error
    return correlation_id


def decode_response(
    api_key: int, version: int, cls: type[Message], buffer: memoryview, position: int = 0
) -> tuple[int, Any, int]:
    """Decode a response frame (without its length) into correlation id, message and end."""
    correlation_id = decode_correlation_id(buffer, position)
    body = _after_response_header(api_key, version, buffer, position)
    message, end = decoder(cls, version)(buffer, body, len(buffer))
    return correlation_id, message, end


def decode_response_in_steps(
    api_key: int, version: int, cls: type[Message], buffer: memoryview, elements: int
) -> Generator[None, None, Any]:
    """Decode the message of a response frame with at most `elements` elements."""
    body = _after_response_header(api_key, version, buffer, 0)
    message, _ = yield from decoder_in_steps(cls, version)(buffer, body, len(buffer), elements)
    return message


def _after_response_header(api_key: int, version: int, buffer: memoryview, position: int) -> int:
    position += 4
    if response_header_version(api_key, version):
        position = _skip_header_tags(buffer, position)
    return position


def _skip_header_tags(buffer: memoryview, position: int) -> int:
    try:
        return skip_tagged_fields(buffer, position)
    except IndexError as error:
        raise ProtocolError(f"response header: {error}") from error
