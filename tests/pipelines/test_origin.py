"""Record columns next to typed value fields: the original bytes, in every format."""

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.pipelines.origin import ORIGIN
from barnabas.spark.source import make_reader
from barnabas.spark.source.ddl import parse_ddl
from barnabas.spark.source.stream import BatchReader
from barnabas.testing import EmbeddedBroker

NOT_TEXT = b'\xff\x00caf\xe9\r\n"{'
AVRO = {"type": "record", "name": "o", "fields": [{"name": "n", "type": "long"}]}
FORMATS = {
    "json": ("n BIGINT", b'{"n": 7}', {}),
    "csv": ("n BIGINT, s STRING", b"7,x", {}),
    "avro": ("n BIGINT", b"\x0e", {"value.avro.schema": json.dumps(AVRO)}),
    "string": ("value STRING", b"7", {}),
}


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_key_value_and_headers_are_the_bytes_that_were_sent(broker: EmbeddedBroker, kind: str) -> None:
    fields, good, options = FORMATS[kind]
    headers: Any = [("h", NOT_TEXT), ("h", b""), ("none", None)]
    sent = [
        (b"good", good, headers),
        (NOT_TEXT, NOT_TEXT, headers),
        (b"", b"\x80" * 200_000, []),
        (None, None, []),
    ]
    topic = broker.create_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value, own in sent:
        producer.produce(topic, value, key, 0, headers=own)
    assert producer.flush(60) == 0

    rows = read(broker.bootstrap_servers, topic, f"{fields}, _corrupt_record BINARY, {ORIGIN}", kind, options)
    assert [(row["_key"], row["_value"]) for row in rows] == [(key, value) for key, value, _ in sent]
    pairs = [[(one["key"], one["value"]) for one in row["_headers"] or ()] for row in rows]
    assert pairs == [own for _, _, own in sent]
    assert [(row["_topic"], row["_partition"], row["_offset"]) for row in rows] == [
        (topic, 0, offset) for offset in range(len(sent))
    ]
    # A tombstone is a row of nulls, and nothing is wrong with it.
    assert [row["_corrupt_record"] for row in rows] == [None, sent[1][1], sent[2][1], None]
    field = fields.split()[0]
    assert [row[field] is None for row in rows] == [False, True, True, True]


def read(servers: str, topic: str, schema: str, kind: str, options: dict[str, str]) -> list[dict[str, Any]]:
    settings = {"kafka.bootstrap.servers": servers, "subscribe": topic, "value.format": kind, **options}
    reader = make_reader(settings, parse_ddl(schema))
    assert isinstance(reader, BatchReader)
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
