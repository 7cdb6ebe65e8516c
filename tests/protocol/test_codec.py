"""Encoding and decoding through the public functions: parts, views, versions that lack a field."""

import pytest

from barnabas.protocol import (
    EncodeError,
    UnknownVersionError,
    decode,
    decode_whole,
    decoder,
    encode,
    encode_parts,
    encoder,
)
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.messages.groups import JoinGroupRequest, LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.metadata import ApiVersionsRequest, MetadataRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.wire import RECORDS_COPIED_BELOW


class FileSlice:
    """A slice sent with sendfile: encoding may use only its size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def fetch_response(*records: object) -> FetchResponse:
    partitions = [PartitionData(partition_index=index, records=data) for index, data in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def test_decoded_records_are_a_view_into_the_input() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"batch")])]
    )
    buffer = bytearray(encode(request, 9))
    decoded, _ = decode(ProduceRequest, 9, buffer)
    view = decoded.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    buffer[buffer.index(b"batch") : buffer.index(b"batch") + 5] = b"BATCH"
    assert bytes(view) == b"BATCH"


@pytest.mark.parametrize("version", [4, 11, 12])
def test_records_that_are_not_bytes_become_separate_parts(version: int) -> None:
    first, second = FileSlice(1000), FileSlice(70_000)
    parts = encode_parts(fetch_response(first, second), version)
    assert [part for part in parts if isinstance(part, FileSlice)] == [first, second]
    assert all(type(part) is bytes for part in parts if not isinstance(part, FileSlice))
    complete = b"".join(part if isinstance(part, bytes) else bytes(part.size) for part in parts)
    assert complete == encode(fetch_response(bytes(1000), bytes(70_000)), version)


def test_large_bytes_are_handed_on_without_a_copy_and_small_ones_are_copied() -> None:
    large = bytes(RECORDS_COPIED_BELOW)
    parts = encode_parts(fetch_response(b"small", large), 12)
    assert any(part is large for part in parts)
    assert b"small" in parts[0]


def test_views_and_null_are_records_too() -> None:
    encoded = encode(fetch_response(memoryview(b"abc"), bytearray(b"abc"), None), 12)
    decoded = decode_whole(FetchResponse, 12, encoded)
    assert [partition.records for partition in decoded.responses[0].partitions] == [b"abc", b"abc", None]


def test_encode_refuses_records_that_only_a_transport_can_send() -> None:
    with pytest.raises(EncodeError, match="encode_parts"):
        encode(fetch_response(FileSlice(5)), 12)


def test_a_value_unsupported_by_the_version_is_an_error() -> None:
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity("m")])
    with pytest.raises(EncodeError, match=r"LeaveGroupRequest version 2 cannot carry members"):
        encode(request, 2)


def test_an_ignorable_value_is_left_out_of_versions_that_lack_it() -> None:
    request = JoinGroupRequest(group_id="g", rebalance_timeout_ms=5, reason="because")
    assert decode_whole(JoinGroupRequest, 0, encode(request, 0)) == JoinGroupRequest(group_id="g")
    assert decode_whole(JoinGroupRequest, 8, encode(request, 8)).reason == "because"


def test_a_tagged_field_at_its_default_takes_no_bytes() -> None:
    plain = encode(FetchRequest(), 12)
    tagged = encode(FetchRequest(cluster_id="abc"), 12)
    assert tagged == plain[:-1] + b"\1\0\4\4abc"


@pytest.mark.parametrize(
    "message",
    [
        ApiVersionsRequest(client_software_name=None),  # type: ignore[arg-type]
        ApiVersionsRequest(client_software_name=5),  # type: ignore[arg-type]
        ApiVersionsRequest(client_software_name="a" * 40_000),
        ApiVersionsRequest(client_software_name="\ud800"),
        MetadataRequest(topics=[None]),  # type: ignore[list-item]
    ],
)
def test_a_value_of_the_wrong_kind_is_an_encode_error(message: ApiVersionsRequest | MetadataRequest) -> None:
    with pytest.raises(EncodeError):
        encode(message, message.max_version)


def test_numbers_that_do_not_fit_are_an_encode_error() -> None:
    with pytest.raises(EncodeError, match="ProduceRequest version 9"):
        encode(ProduceRequest(acks=40_000), 9)


def test_versions_outside_the_declared_range_are_unknown() -> None:
    for version in (2, 14):
        with pytest.raises(UnknownVersionError, match="ProduceRequest has versions 3 to 13"):
            decoder(ProduceRequest, version)
        with pytest.raises(UnknownVersionError):
            encode(ProduceRequest(), version)


def test_codecs_are_compiled_once_for_a_version() -> None:
    assert decoder(ProduceRequest, 9) is decoder(ProduceRequest, 9)
    assert encoder(ProduceRequest, 9) is not encoder(ProduceRequest, 10)
