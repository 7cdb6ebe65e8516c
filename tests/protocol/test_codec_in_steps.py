"""Stepwise codecs for large messages equal the plain functions."""

import random
from collections.abc import Generator
from typing import Any

import pytest

from barnabas.protocol import Message, encode
from barnabas.protocol.codec import decoder_in_steps, encoder_in_steps
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.wire import STEP, TooManyElementsError
from tests.support.builders.messages import sample
from tests.support.kafka.catalogue import ALL_MESSAGES


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.NAME)
def test_stepwise_codecs_equal_the_plain_ones(cls: type[Message]) -> None:
    for version in {cls.min_version, cls.max_version}:
        message = sample(cls, version, random.Random(version))
        parts: list[Any] = []
        rest = finish(encoder_in_steps(cls, version)(message, bytearray(), parts))
        encoded = b"".join([*parts, rest])
        assert encoded == encode(message, version)
        view = memoryview(encoded)
        assert finish(decoder_in_steps(cls, version)(view, 0, len(view))) == (message, len(view))


def test_a_codec_in_steps_stops_after_each_few_elements() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(10 * STEP)])
    encoded = memoryview(encode(request, 9))
    assert 10 <= sum(1 for _ in decoder_in_steps(MetadataRequest, 9)(encoded, 0, len(encoded))) <= 12
    assert 10 <= sum(1 for _ in encoder_in_steps(MetadataRequest, 9)(request, bytearray(), [])) <= 12


def test_a_decoder_in_steps_has_a_budget_too() -> None:
    encoded = memoryview(encode(MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 10), 9))
    with pytest.raises(TooManyElementsError):
        finish(decoder_in_steps(MetadataRequest, 9)(encoded, 0, len(encoded), 9))


def finish(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
