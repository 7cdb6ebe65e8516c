"""Encodings equal Apache Kafka's byte for byte: every message, every version, random values."""

import base64
import json
import random
import subprocess
from pathlib import Path
from typing import Any

from barnabas.protocol import Message, Struct, decode_whole, encode
from barnabas.protocol.schema import Field
from tests.support.builders.messages import sample
from tests.support.kafka.catalogue import KAFKA_VERSIONS, camel_case, is_own, java_class
from tests.support.kafka.jars import kafka_libs, newest_client_jar, requires_java

SAMPLES_OF_EACH_VERSION = 6


@requires_java
def test_every_version_of_every_message_has_the_bytes_that_apache_kafka_writes() -> None:
    source = random.Random(20260501)
    samples = [
        (version, sample(cls, version, source))
        for cls, version in KAFKA_VERSIONS
        for _ in range(SAMPLES_OF_EACH_VERSION)
    ]
    for (version, message), expected in zip(samples, bytes_of_apache_kafka(samples), strict=True):
        assert encode(message, version).hex() == expected, f"{message} in version {version}"
        assert decode_whole(type(message), version, bytes.fromhex(expected)) == message


def bytes_of_apache_kafka(samples: list[tuple[int, Message]]) -> list[str]:
    """Hand all messages to one JVM, as JSON, and take their encodings in hex."""
    lines = [
        f"{java_class(type(message))}\t{version}\t{json.dumps(as_kafka_json(message, version))}\n"
        for version, message in samples
    ]
    oracle = Path(__file__).with_name("MessageOracle.java")
    done = subprocess.run(
        [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xmx512m",
            "-cp",
            f"{newest_client_jar()}:{kafka_libs()}/*",
            oracle,
        ],
        input="".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def as_kafka_json(value: Struct, version: int) -> dict[str, Any]:
    """The form Kafka's own JSON converters read."""
    return {
        camel_case(field.name): _field_as_json(field, getattr(value, field.name), version)
        for field in value.FIELDS
        if field.present_in(version) and not is_own(field)
    }


def _field_as_json(field: Field, value: Any, version: int) -> Any:
    if field.wire == "array" and value is not None:
        return [_element_as_json(field.element, element, version) for element in value]
    return _element_as_json(field.wire, value, version)


def _element_as_json(kind: Any, value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return as_kafka_json(value, version)
    if not isinstance(value, bytes):
        return value
    if kind == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode()
