"""Encoded messages are decoded again, for every message, every version and any values."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.protocol import Message, decode, decode_whole, encode
from tests.support.builders.messages import messages, sample
from tests.support.kafka.catalogue import ALL_MESSAGES, ALL_VERSIONS


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.NAME)
@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_message_survives_encoding_and_decoding(cls: type[Message], data: st.DataObject) -> None:
    version, message = data.draw(messages(cls))
    assert decode_whole(cls, version, encode(message, version)) == message


def test_every_version_survives_encoding_and_decoding_in_the_middle_of_a_buffer() -> None:
    source = random.Random(5)
    for cls, version in ALL_VERSIONS:
        message = sample(cls, version, source)
        encoded = encode(message, version)
        buffer = b"before" + encoded + b"behind"
        assert decode(cls, version, buffer, 6) == (message, 6 + len(encoded))


def test_every_version_of_a_message_of_defaults_survives() -> None:
    for cls, version in ALL_VERSIONS:
        assert decode_whole(cls, version, encode(cls(), version)) == cls()
