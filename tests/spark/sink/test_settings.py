"""Validation of sink options, before Spark is used."""

import os
from hashlib import sha256
from typing import Any

import pytest
from pyspark.sql.types import StructType

from barnabas.records.compression import Codec
from barnabas.spark.options import OptionError
from barnabas.spark.sink.settings import SinkSettings, normal_location, read_settings

SCHEMA = StructType().add("value", "string").add("timestamp", "timestamp")
GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}


def settings(*, is_streaming: bool = True, **options: str) -> SinkSettings:
    return read_settings({**GIVEN, **options}, SCHEMA, is_streaming=is_streaming)


def test_a_query_that_could_not_be_known_again_is_refused() -> None:
    with pytest.raises(OptionError, match="'checkpointLocation' or 'sinkId'"):
        settings()
    assert settings(is_streaming=False).sink == ""
    assert settings(delivery="at-least-once").sink == ""


def test_a_sink_is_known_by_its_checkpoint_or_by_its_own_name() -> None:
    first = settings(checkpointLocation="/data/a")
    assert first.sink == settings(checkpointLocation="/data/a/").sink
    assert first.sink != settings(checkpointLocation="/data/b").sink
    assert settings(checkpointLocation="/data/a", sinkId="mine").sink == "mine"


@pytest.mark.parametrize(
    "location", ["file:/data/a", "file:///data/a", "FILE:///data/a/", "/data//a", "/data/./b/../a", "a"]
)
def test_one_checkpoint_is_one_sink_in_every_notation(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/data")
    assert settings(checkpointLocation=location).sink == settings(checkpointLocation="/data/a").sink


@pytest.mark.parametrize(
    ("location", "normal"),
    [
        ("hdfs://nn:8020/data/a", "hdfs://nn:8020/data/a"),
        ("hdfs://nn:8020/data//a/", "hdfs://nn:8020/data/a"),
        ("S3A://bucket/a/../b", "s3a://bucket/b"),
        ("s3a://bucket", "s3a://bucket"),
        ("dbfs:/a", "dbfs:/a"),
        ("/with a colon/a:b", "/with a colon/a:b"),
    ],
)
def test_a_checkpoint_elsewhere_keeps_its_scheme_and_host(location: str, normal: str) -> None:
    assert normal_location(location) == normal


def test_the_name_of_a_sink_is_the_same_in_every_version() -> None:
    assert settings(checkpointLocation="/data/a").sink == "spark-" + sha256(b"/data/a").hexdigest()[:16]
    remote = "hdfs://nn/data/a"
    assert settings(checkpointLocation=remote).sink == "spark-" + sha256(remote.encode()).hexdigest()[:16]


def test_the_settings_of_kafkas_producer_are_understood() -> None:
    values: dict[str, Any] = {
        "kafka.compression.type": "lz4",
        "kafka.acks": "1",
        "kafka.max.request.size": "5000",
        "sinkId": "s",
    }
    found = settings(**values)
    assert (found.codec, found.acks, found.largest_request) == (Codec.LZ4, 1, 5000)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("kafka.acks", "2", "'kafka.acks' must be one of all, -1, 0, 1"),
        ("kafka.compression.type", "rar", "'kafka.compression.type' must be one of"),
        ("kafka.max.request.size", "0", "must be a whole number above zero"),
        ("handedOverBytes", "-1", "must be at least 0"),
        ("tornBatch", "guess", "must be one of fail, skip, rerun"),
    ],
)
def test_a_value_that_cannot_be_is_named(name: str, value: str, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        read_settings({**GIVEN, "sinkId": "s", name: value}, SCHEMA, is_streaming=True)


def test_record_time_is_the_current_time_by_default() -> None:
    assert settings(sinkId="s").columns == ("value",)
    assert settings(sinkId="s", includeTimestamp="true").columns == ("value", "timestamp")


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ({"value": "string"}, {"kafka.ackss": "1"}, "did you mean 'kafka.acks'"),
        ({"value": "string"}, {"delivery": "twice"}, "'delivery' must be one of exactly-once"),
        ({"id": "string"}, {}, "missing column 'value'"),
        (
            {"value": "long"},
            {},
            "column 'value' must be of type string or binary, not bigint: cast it first",
        ),
    ],
)
def test_write_error_is_reported_in_one_line(
    columns: dict[str, str], options: dict[str, str], text: str
) -> None:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    with pytest.raises(ValueError, match=text):
        read_settings({**GIVEN, **options}, schema, is_streaming=False)
