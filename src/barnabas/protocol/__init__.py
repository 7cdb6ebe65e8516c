"""Kafka's wire protocol without I/O: bytes in, messages out, and back.

`schema` is the language in which messages are declared, `messages` has the declarations, `codec` encodes and
decodes them, `framing` adds headers and lengths, and `api` (ApiKey, APIS) maps API keys to messages.
"""

from __future__ import annotations

from barnabas.protocol.api import REQUESTS, RESPONSES, ApiKey, request_class, response_class
from barnabas.protocol.codec import decode, decode_whole, decoder, encode, encode_parts, encoder
from barnabas.protocol.framing import (
    RequestHeader,
    decode_correlation_id,
    decode_request_header,
    decode_response,
    encode_request,
    request_header_version,
    response_header_version,
)
from barnabas.protocol.schema import Message, Struct
from barnabas.protocol.wire import EncodeError, ProtocolError, UnknownVersionError

__all__ = [
    "REQUESTS",
    "RESPONSES",
    "ApiKey",
    "EncodeError",
    "Message",
    "ProtocolError",
    "RequestHeader",
    "Struct",
    "UnknownVersionError",
    "decode",
    "decode_correlation_id",
    "decode_request_header",
    "decode_response",
    "decode_whole",
    "decoder",
    "encode",
    "encode_parts",
    "encode_request",
    "encoder",
    "request_class",
    "request_header_version",
    "response_class",
    "response_header_version",
]
