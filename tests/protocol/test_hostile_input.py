"""Arbitrary bytes decode to a message or a ProtocolError, in bounded memory."""

import random
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol import Message, ProtocolError, decode, decode_request_header, decode_whole, encode
from barnabas.protocol.codec import decoder, decoder_in_steps
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from barnabas.protocol.messages.metadata import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from barnabas.protocol.messages.offsets import OffsetFetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.wire import (
    MAX_ARRAY_ELEMENTS,
    MAX_ELEMENTS,
    MAX_TAGGED_FIELDS,
    CountTooLargeError,
    TooManyElementsError,
    skip_tagged_fields,
    unsigned_varint,
)
from tests.support.builders.messages import sample
from tests.support.kafka.catalogue import ALL_MESSAGES, ALL_VERSIONS

MUTATIONS_OF_EACH_VERSION = 15


def assert_decoded_or_refused(cls: type[Message], version: int, data: bytes) -> None:
    """Any other outcome than a message or a rejection fails the test."""
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
            behind = (
                source.randbytes(50) if length % 2 else encoded[length:]
            )  # of another, in the same buffer
            with pytest.raises(ProtocolError):
                decoder(cls, version)(memoryview(encoded[:length] + behind), 0, length)


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


@pytest.mark.parametrize("count", [2, 1_000, MAX_ARRAY_ELEMENTS])
def test_cve_2022_34917_an_array_count_beyond_the_bytes_that_remain_is_refused(count: int) -> None:
    old_style = struct.pack(">i", count) + b"\0\0"
    with pytest.raises(ProtocolError, match="topics claims"):
        decode(MetadataRequest, 1, old_style)
    compact = unsigned_varint(count + 1) + b"\1"
    with pytest.raises(ProtocolError, match="topics claims"):
        decode(MetadataRequest, 9, compact)


@pytest.mark.parametrize("count", [MAX_ARRAY_ELEMENTS + 1, 0x7FFFFFFE])
def test_an_array_longer_than_kafka_takes_is_refused_before_its_elements_are_read(count: int) -> None:
    room = bytes(2 * (MAX_ARRAY_ELEMENTS + 2))  # so many names would fit, each of no letters
    for version, frame in (
        (1, struct.pack(">i", count) + room),
        (9, unsigned_varint(count + 1) + bytes([1]) * len(room)),
    ):
        _allocates_nothing(
            lambda version=version, frame=frame: _refuse_count(MetadataRequest, version, frame)  # type: ignore[misc]
        )


@pytest.mark.parametrize("in_steps", [False, True])
def test_numbers_of_an_overlong_array_are_not_unpacked(in_steps: bool) -> None:
    count = MAX_ARRAY_ELEMENTS + 1
    numbers = bytes(4 * count)
    for version, frame in (
        (5, struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">i", count) + numbers),
        (7, b"\x01\x02\x02t" + unsigned_varint(count + 1) + numbers),
    ):
        _allocates_nothing(
            lambda version=version, frame=frame: _refuse_count(OffsetFetchRequest, version, frame, in_steps)  # type: ignore[misc]
        )


def _refuse_count(cls: type[Message], version: int, frame: bytes, in_steps: bool = False) -> None:
    view = memoryview(frame)
    with pytest.raises(CountTooLargeError, match="more than 1000000"):
        _decode(cls, version, view, in_steps)


def _decode(cls: type[Message], version: int, view: memoryview, in_steps: bool) -> None:
    if in_steps:
        list(decoder_in_steps(cls, version)(view, 0, len(view)))
    else:
        decode(cls, version, view)


def _allocates_nothing(act: Callable[[], None]) -> None:
    """Rejected input allocates nothing."""
    act()  # compiles the decoder
    tracemalloc.start()
    try:
        act()
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


@pytest.mark.parametrize("count", [MAX_TAGGED_FIELDS + 1, 0xFFFFFFFF])
def test_more_tagged_fields_than_kafka_takes_are_refused_wherever_they_are(count: int) -> None:
    tags = unsigned_varint(count) + b"\x07\0" * (MAX_TAGGED_FIELDS + 2)
    for cls, version, frame in (
        (ApiVersionsRequest, 3, encode(ApiVersionsRequest("me", "1"), 3)[:-1] + tags),  # all unknown
        (FetchRequest, 12, encode(FetchRequest(), 12)[:-1] + tags),  # some are known
    ):
        with pytest.raises(CountTooLargeError, match="tagged fields"):
            decode(cls, version, frame)
    with pytest.raises(CountTooLargeError, match="tagged fields"):
        skip_tagged_fields(memoryview(tags), 0)  # of a request's header


def test_ten_thousand_tagged_fields_are_passed_over() -> None:
    tags = unsigned_varint(MAX_TAGGED_FIELDS) + b"\x07\0" * MAX_TAGGED_FIELDS
    frame = encode(ApiVersionsRequest("me", "1"), 3)[:-1] + tags
    assert decode(ApiVersionsRequest, 3, frame)[1] == len(frame)


def test_elements_are_counted_over_all_arrays_of_a_message() -> None:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=index) for index in range(3)])] * 4
    forgotten = [ForgottenTopic(topic="t", partitions=list(range(50)))]
    encoded = memoryview(encode(FetchRequest(topics=topics, forgotten_topics_data=forgotten), 12))
    decode_within = decoder(FetchRequest, 12)
    elements = 4 + 4 * 3 + 1 + 50
    assert len(decode_within(encoded, 0, len(encoded), elements)[0].topics) == 4
    with pytest.raises(TooManyElementsError, match="partitions"):
        decode_within(encoded, 0, len(encoded), elements - 1)


def test_unknown_tagged_fields_count_as_elements() -> None:
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
    topic = b"\x02t" + unsigned_varint(MAX_ARRAY_ELEMENTS + 1) + bytes(4 * MAX_ARRAY_ELEMENTS) + b"\0"
    topics = MAX_ELEMENTS // MAX_ARRAY_ELEMENTS
    frame = b"\x01" + unsigned_varint(topics + 1) + topic * topics
    with pytest.raises(TooManyElementsError):
        decode(OffsetFetchRequest, 7, frame)


def test_cve_2026_111108_a_false_count_costs_no_memory() -> None:
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


def test_cve_2026_111115_too_many_tagged_fields_are_refused() -> None:
    encoded = encode(ApiVersionsRequest("me", "1"), 3)
    with pytest.raises(ProtocolError, match="10001 tagged fields"):
        decode(ApiVersionsRequest, 3, encoded[:-1] + unsigned_varint(10_001) + bytes(20_002))


def test_a_tagged_field_beyond_the_message_is_refused() -> None:
    encoded = encode(ApiVersionsRequest("me", "1"), 3)
    with pytest.raises(ProtocolError, match="beyond the message"):
        decode(ApiVersionsRequest, 3, encoded[:-1] + b"\1\7\x7fabc")


def test_bytes_behind_a_message_are_refused_where_it_must_fill_its_frame() -> None:
    encoded = encode(FetchRequest(topics=[FetchTopic(topic="t")]), 12)
    with pytest.raises(ProtocolError, match="3 bytes follow FetchRequest"):
        decode_whole(FetchRequest, 12, encoded + b"\0\0\0")


def test_a_nested_count_is_held_against_the_bytes_that_remain_there() -> None:
    encoded = encode(MetadataResponse(), 0)
    with pytest.raises(ProtocolError, match="brokers claims"):
        decode(MetadataResponse, 0, struct.pack(">i", 5) + encoded[4:])
