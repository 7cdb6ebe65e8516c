"""Whatever bytes arrive: a message or a ProtocolError, in bounded memory, and nothing else."""

import random
import struct
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol import Message, ProtocolError, decode, decode_request_header, decode_whole, encode
from barnabas.protocol.codec import decoder
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from barnabas.protocol.messages.metadata import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.protocol.wire import MAX_ELEMENTS, TooManyElementsError, unsigned_varint
from tests.protocol.catalogue import ALL_MESSAGES, ALL_VERSIONS
from tests.protocol.samples import sample

MUTATIONS_OF_EACH_VERSION = 15


def assert_decoded_or_refused(cls: type[Message], version: int, data: bytes) -> None:
    """Any other outcome than a message or a refusal lets the test fail."""
    with suppress(ProtocolError):
        assert isinstance(decode(cls, version, data)[0], cls)


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.NAME)
def test_a_message_cut_at_any_byte_is_refused(cls: type[Message]) -> None:
    source = random.Random(3)
    for version in {cls.min_version, cls.max_version}:
        encoded = encode(sample(cls, version, source), version)
        for length in range(min(len(encoded), 400)):
            with pytest.raises(ProtocolError):
                decode(cls, version, encoded[:length])


def test_the_limit_counts_and_not_the_end_of_the_buffer() -> None:
    encoded = encode(MetadataRequest(topics=[MetadataRequestTopic(name="abc")]), 9)
    decode_up_to = decoder(MetadataRequest, 9)
    for limit in range(len(encoded)):
        with pytest.raises(ProtocolError):
            decode_up_to(memoryview(encoded), 0, limit)


def test_random_mutations_give_a_message_or_a_refusal() -> None:
    source = random.Random(11)
    for cls, version in ALL_VERSIONS:
        encoded = encode(sample(cls, version, source), version)
        for _ in range(MUTATIONS_OF_EACH_VERSION):
            assert_decoded_or_refused(cls, version, mutated(encoded, source))


def mutated(data: bytes, source: random.Random) -> bytes:
    """A few bytes changed, removed or added."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        position = source.randrange(len(changed) + 1)
        changed[position : position + source.randrange(3)] = source.randbytes(source.randrange(3))
    return bytes(changed)


@settings(max_examples=300, deadline=None, database=None)
@given(st.sampled_from(ALL_VERSIONS), st.binary(max_size=300))
def test_any_bytes_give_a_message_or_a_refusal(which: tuple[type[Message], int], data: bytes) -> None:
    assert_decoded_or_refused(*which, data)


@settings(max_examples=300, deadline=None, database=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_request_header_or_a_refusal(data: bytes) -> None:
    try:
        _header, end = decode_request_header(memoryview(data), 0, len(data))
    except ProtocolError:
        return
    assert end <= len(data)


@pytest.mark.parametrize("count", [2, 1_000, 1_000_001, 0x7FFFFFFF])
def test_an_array_count_beyond_the_bytes_that_remain_is_refused(count: int) -> None:
    old_style = struct.pack(">i", count) + b"\0\0"
    with pytest.raises(ProtocolError, match="topics claims"):
        decode(MetadataRequest, 1, old_style)
    compact = unsigned_varint(count + 1) + b"\1"
    with pytest.raises(ProtocolError, match="topics claims"):
        decode(MetadataRequest, 9, compact)


def test_elements_are_counted_over_all_arrays_of_a_message() -> None:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=index) for index in range(3)])] * 4
    forgotten = [ForgottenTopic(topic="t", partitions=list(range(50)))]
    encoded = memoryview(encode(FetchRequest(topics=topics, forgotten_topics_data=forgotten), 12))
    decode_within = decoder(FetchRequest, 12)
    elements = 4 + 4 * 3 + 1 + 50
    assert len(decode_within(encoded, 0, len(encoded), elements)[0].topics) == 4
    with pytest.raises(TooManyElementsError, match="partitions"):
        decode_within(encoded, 0, len(encoded), elements - 1)


def test_tagged_fields_that_nobody_knows_count_as_elements() -> None:
    unknown = b"\x07\0" * 20
    encoded = memoryview(encode(ApiVersionsRequest("me", "1"), 3)[:-1] + b"\x14" + unknown)
    decode_within = decoder(ApiVersionsRequest, 3)
    assert decode_within(encoded, 0, len(encoded), 20)[1] == len(encoded)
    with pytest.raises(TooManyElementsError, match="tagged fields"):
        decode_within(encoded, 0, len(encoded), 19)
    known = memoryview(encode(FetchRequest(), 12)[:-1] + b"\x14" + unknown)
    with pytest.raises(TooManyElementsError, match="tagged fields"):
        decoder(FetchRequest, 12)(known, 0, len(known), 19)


def test_without_a_bound_of_its_own_a_reader_takes_four_million_elements() -> None:
    names = bytes([1]) * (MAX_ELEMENTS + 1)
    with pytest.raises(TooManyElementsError):
        decode(DeleteTopicsRequest, 4, unsigned_varint(len(names) + 1) + names + bytes(5))


def test_a_false_count_costs_no_memory() -> None:
    body = struct.pack(">iiiibi", -1, 0, 0, 0, 0, 0)[:17] + struct.pack(">i", 900_000) + bytes(2_000)
    assert_decoded_or_refused(FetchRequest, 4, body)
    tracemalloc.start()
    try:
        assert_decoded_or_refused(FetchRequest, 4, body)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


@pytest.mark.parametrize("count", [-2, -(2**31)])
def test_a_negative_count_that_is_not_null_is_refused(count: int) -> None:
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 1, struct.pack(">i", count))


def test_null_is_refused_where_a_version_has_none() -> None:
    with pytest.raises(ProtocolError, match="topics"):
        decode(MetadataRequest, 0, struct.pack(">i", -1))
    with pytest.raises(ProtocolError, match="client_software_name must not be null"):
        decode(ApiVersionsRequest, 3, b"\0\1\0")
    with pytest.raises(ProtocolError, match="name must not be null"):
        decode(MetadataRequest, 4, struct.pack(">ih?", 1, -1, True))


def test_a_string_length_below_null_is_refused() -> None:
    with pytest.raises(ProtocolError, match="transactional_id"):
        decode(ProduceRequest, 3, struct.pack(">hhii", -2, 1, 0, 0))


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(ProtocolError, match="utf-8"):
        decode(ApiVersionsRequest, 3, b"\3\xff\xfe\1\0")


def test_a_compact_string_longer_than_kafka_allows_is_refused() -> None:
    body = unsigned_varint(0x8001) + b"a" * 0x8000 + b"\1\0"
    with pytest.raises(ProtocolError, match="longer than 32767"):
        decode(ApiVersionsRequest, 3, body)


@pytest.mark.parametrize("varint", [b"\xff\xff\xff\xff\xff\1", b"\xff\xff\xff\xff\x7f"])
def test_a_varint_of_more_than_32_bits_is_refused(varint: bytes) -> None:
    with pytest.raises(ProtocolError, match="varint"):
        decode(MetadataRequest, 9, varint + bytes(10))


def test_a_known_tagged_field_must_have_the_size_it_claims() -> None:
    encoded = bytearray(encode(FetchRequest(cluster_id="abc"), 12))
    position = encoded.index(b"\4abc") - 1
    assert encoded[position] == 4
    for size in (3, 5):
        encoded[position] = size
        with pytest.raises(ProtocolError):
            decode_whole(FetchRequest, 12, bytes(encoded) + b"\0")


def test_an_unknown_tagged_field_is_skipped() -> None:
    encoded = encode(ApiVersionsRequest("me", "1"), 3)
    with_tags = encoded[:-1] + b"\2" + b"\x07\3xyz" + b"\x96\1\0"
    assert decode_whole(ApiVersionsRequest, 3, with_tags) == ApiVersionsRequest("me", "1")


def test_too_many_tagged_fields_are_refused() -> None:
    encoded = encode(ApiVersionsRequest("me", "1"), 3)
    with pytest.raises(ProtocolError, match="10001 tagged fields"):
        decode(ApiVersionsRequest, 3, encoded[:-1] + unsigned_varint(10_001) + bytes(20_002))


def test_a_tagged_field_beyond_the_message_is_refused() -> None:
    encoded = encode(ApiVersionsRequest("me", "1"), 3)
    with pytest.raises(ProtocolError, match="beyond the message"):
        decode(ApiVersionsRequest, 3, encoded[:-1] + b"\1\7\x7fabc")


def test_bytes_behind_a_message_are_refused_where_it_must_fill_its_frame() -> None:
    encoded = encode(FetchRequest(topics=[FetchTopic(topic="t")]), 12)
    with pytest.raises(ProtocolError, match="3 bytes are left"):
        decode_whole(FetchRequest, 12, encoded + b"\0\0\0")


def test_a_nested_count_is_held_against_the_bytes_that_remain_there() -> None:
    encoded = encode(MetadataResponse(), 0)
    with pytest.raises(ProtocolError, match="brokers claims"):
        decode(MetadataResponse, 0, struct.pack(">i", 5) + encoded[4:])
