"""kafka-python's independent codec reads our bytes and writes the same ones."""

import importlib
import pkgutil
import random
import warnings
from functools import cache
from typing import Any

import pytest

from barnabas.protocol import Message, RequestHeader, decode_response, encode, encode_request
from barnabas.protocol.api import REQUESTS, RESPONSES
from barnabas.protocol.messages.metadata import ApiVersionsResponse
from tests.support.builders.messages import encode_response, sample

SAMPLES_OF_EACH_VERSION = 4


@cache
def kafka_python_classes() -> dict[str, Any]:
    """All request and response classes of kafka-python that a broker's client needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it finds its schemas in a deprecated way
        protocol = importlib.import_module("kafka.protocol")
        for module in pkgutil.walk_packages(protocol.__path__, "kafka.protocol."):
            if ".old" not in module.name and "generate_stubs" not in module.name:
                importlib.import_module(module.name)
        base = importlib.import_module("kafka.protocol.api_message").ApiMessage
    return {cls.__name__: cls for cls in base.__subclasses__()}


def read_by_kafka_python(expected: Any, version: int, encoded: bytes) -> Any:
    """A message of kafka-python that can be encoded again; its decoder leaves the header unset."""
    message = expected.decode(encoded, version=version)
    message._header = None
    return message


def sample_for_both(cls: type[Message], version: int, source: random.Random) -> Message:
    """Random values, but no error in ApiVersions: kafka-python takes that for a body of version 0."""
    message = sample(cls, version, source)
    if isinstance(message, ApiVersionsResponse):
        message.error_code = 0
    return message


def shared_versions(table: Any) -> list[Any]:
    """(our class, kafka-python's class, version) for every version that both know."""
    return [
        pytest.param(cls, kafka_python_classes()[cls.NAME], version, id=f"{cls.NAME}-{version}")
        for cls in table.values()
        if cls.NAME in kafka_python_classes()
        for version in range(cls.min_version, cls.max_version + 1)
        if version <= kafka_python_classes()[cls.NAME].max_version
    ]


@pytest.mark.parametrize(
    ("cls", "expected", "version"), [*shared_versions(REQUESTS), *shared_versions(RESPONSES)]
)
def test_kafka_python_writes_the_bytes_that_it_read_from_us(
    cls: type[Message], expected: Any, version: int
) -> None:
    source = random.Random(version)
    for _ in range(SAMPLES_OF_EACH_VERSION):
        encoded = encode(sample_for_both(cls, version, source), version)
        assert read_by_kafka_python(expected, version, encoded).encode(version=version) == encoded


@pytest.mark.parametrize(("cls", "expected", "version"), shared_versions(REQUESTS))
def test_a_framed_request_has_the_bytes_of_kafka_python(
    cls: type[Message], expected: Any, version: int
) -> None:
    message = sample_for_both(cls, version, random.Random(1))
    request = read_by_kafka_python(expected, version, encode(message, version))
    request.with_header(correlation_id=77, client_id="someone")
    header = RequestHeader(cls.api_key, version, 77, "someone")
    assert b"".join(encode_request(header, message)) == request.encode(
        version=version, header=True, framed=True
    )


@pytest.mark.parametrize(("cls", "expected", "version"), shared_versions(RESPONSES))
def test_a_framed_response_has_the_bytes_of_kafka_python(
    cls: type[Message], expected: Any, version: int
) -> None:
    message = sample_for_both(cls, version, random.Random(1))
    response = read_by_kafka_python(expected, version, encode(message, version))
    response.with_header(correlation_id=77)
    frame = b"".join(encode_response(77, cls.api_key, version, message))
    assert frame == response.encode(header=True, framed=True)
    assert decode_response(cls.api_key, version, cls, memoryview(frame), 4) == (77, message, len(frame))


def test_most_client_input_is_compared() -> None:
    compared = {parameters.values[0].NAME for parameters in shared_versions(REQUESTS)}
    assert len(compared) >= 50
    assert {"ProduceRequest", "FetchRequest", "MetadataRequest", "JoinGroupRequest"} <= compared
