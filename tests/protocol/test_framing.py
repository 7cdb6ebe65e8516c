"""Headers and frame lengths, from both sides of a connection."""

import struct

import pytest

from barnabas.protocol import (
    ApiKey,
    ProtocolError,
    RequestHeader,
    decode_correlation_id,
    decode_request_header,
    decode_response,
    decode_whole,
    encode_request,
    request_header_version,
    response_header_version,
)
from barnabas.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from tests.support.builders.messages import encode_response


def body_of(parts: list[bytes]) -> memoryview:
    """The frame without its length, which must be right."""
    frame = b"".join(parts)
    assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
    return memoryview(frame)[4:]


@pytest.mark.parametrize(("version", "client_id"), [(0, "me"), (0, None), (0, ""), (9, "me"), (9, None)])
def test_a_request_header_survives(version: int, client_id: str | None) -> None:
    header = RequestHeader(ApiKey.METADATA, version, 7, client_id)
    frame = body_of(encode_request(header, MetadataRequest()))
    decoded, end = decode_request_header(frame, 0, len(frame))
    assert decoded == header
    assert decode_whole(MetadataRequest, version, frame[end:]) == MetadataRequest()


def test_tagged_fields_of_a_flexible_request_header_are_skipped() -> None:
    frame = memoryview(struct.pack(">hhih", 18, 3, 1, -1) + b"\1\x05\2ab" + b"body")
    header, end = decode_request_header(frame, 0, len(frame))
    assert header == RequestHeader(18, 3, 1, None)
    assert bytes(frame[end:]) == b"body"


def test_an_unknown_api_is_read_as_if_it_were_not_flexible_so_that_it_can_be_refused_by_name() -> None:
    frame = memoryview(struct.pack(">hhih", 999, 3, 1, 2) + b"me")
    assert decode_request_header(frame, 0, len(frame)) == (RequestHeader(999, 3, 1, "me"), 12)


def test_an_api_versions_request_of_an_unknown_version_has_a_flexible_header() -> None:
    assert request_header_version(ApiKey.API_VERSIONS, 99) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        struct.pack(">hhih", 0, 3, 1, -2),
        struct.pack(">hhih", 0, 3, 1, 5) + b"ab",
        struct.pack(">hhih", 0, 3, 1, 2) + b"\xff\xff",
        struct.pack(">hhih", 0, 9, 1, -1),
    ],
)
def test_a_broken_request_header_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(memoryview(data + b"xxxx"), 0, len(data))


def test_the_api_versions_response_never_has_tagged_fields_in_its_header() -> None:
    assert response_header_version(ApiKey.API_VERSIONS, 3) == 0
    assert response_header_version(ApiKey.METADATA, 9) == 1
    assert response_header_version(ApiKey.METADATA, 8) == 0
    frame = body_of(encode_response(5, ApiKey.API_VERSIONS, 3, ApiVersionsResponse(error_code=35)))
    assert bytes(frame[:6]) == struct.pack(">ih", 5, 35)


@pytest.mark.parametrize("version", [0, 3])
def test_client_decodes_the_responses_of_a_broker(version: int) -> None:
    response = ApiVersionsResponse(error_code=0)
    frame = body_of(encode_response(5, ApiKey.API_VERSIONS, version, response))
    assert decode_correlation_id(frame) == 5
    decoded = decode_response(ApiKey.API_VERSIONS, version, ApiVersionsResponse, frame)
    assert decoded == (5, response, len(frame))


def test_a_broken_response_header_is_refused() -> None:
    for data in (b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\x05"):
        with pytest.raises(ProtocolError):
            decode_response(ApiKey.METADATA, 9, ApiVersionsRequest, memoryview(data))
