"""`barnabas pipeline run` on invalid records: dead letters, byte for byte."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from barnabas.cli.main import make_app
from barnabas.cli.pipeline import run as pipeline_run
from barnabas.pipelines.library.enrich.generator import CUSTOMERS, ORDERS
from barnabas.testing import EmbeddedBroker
from tests.support.spark.workbench import Stored, Workbench, stored_in

pytestmark = pytest.mark.timeout(300)

Headers = list[tuple[str, bytes | None]]


class Bad(NamedTuple):
    """A record that is no order."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    codec: str = "none"


BAD = [
    Bad(b"k", b'{"order": 1, "customer": "caf\xe9 \xff\x00"}', []),
    Bad(
        b"\x00\xff\xfe any \x80",
        b"",
        [("trace", b"\xff\x00"), ("empty", b""), ("none", None), ("trace", b"2")],
    ),
    Bad(b"", b"\x80" * 3, [("errors.reason", b"of another life")]),
    Bad(None, b'{"order": 1, "customer"', []),
    Bad(b"parsed, but not by the rule", b' {"customer": "c1",  "more": [1.50]} ', []),
    Bad(b"tombstone", None, [("h", b"v")]),
    # As large as the topic takes; its letter is larger by its headers. And one that was small while it was compressed.
    Bad(os.urandom(300), os.urandom(1_048_000), []),
    Bad(b"compressed", b'{"order": "' + b"9" * 5_000_000, [], "lz4"),
]
GOOD = b'{"order": 7, "customer": "c1", "amount": 1.5, "time": 1}'


@pytest.fixture
def _in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the command in the tests' Spark session."""

    @contextmanager
    def session(*arguments: Any, **options: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(pipeline_run, "pipeline_session", session)


def produce(servers: str, topic: str, records: list[Bad]) -> None:
    for codec in ("none", "lz4"):
        settings = {"compression.type": codec, "message.max.bytes": 8_000_000, "linger.ms": 0}
        producer = Producer({"bootstrap.servers": servers, **settings})
        for record in records:
            if record.codec == codec:
                producer.produce(topic, record.value, record.key, headers=list(record.headers))
        assert producer.flush(60) == 0


@pytest.mark.usefixtures("_in_session")
def test_a_dead_letter_is_its_record_byte_for_byte(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topics = {ORDERS: "letters-orders", CUSTOMERS: "letters-customers"}
    bench = Workbench("enrich", tmp_path / "enrich", broker.bootstrap_servers, topics)
    bench.create_inputs(ORDERS, CUSTOMERS)
    produce(bench.servers, topics[ORDERS], [*BAD, Bad(b"good", GOOD, [])])
    settings = [text for name, value in topics.items() for text in ("-X", f"{name}={value}")]
    ended = CliRunner().invoke(
        make_app(), ["pipeline", "run", str(bench.folder), "-b", bench.servers, *settings]
    )
    assert ended.exit_code == 0, ended.stderr

    sent = [record for record in stored_in(bench.servers, topics[ORDERS]) if record.value != GOOD]
    assert len(sent) == len(BAD)
    found = stored_in(bench.servers, f"{topics[ORDERS]}.dead-letters")
    assert sorted(map(without_place, found), key=repr) == sorted(map(expected, sent), key=repr)
    assert [record.key for record in bench.read("letters-orders.enriched")] == ["7"]


def expected(record: Stored) -> tuple[bytes | None, bytes | None, Headers]:
    facts = {
        "dataset": "orders",
        "reason": "is an order",
        "topic": "letters-orders",
        "partition": record.partition,
        "offset": record.offset,
    }
    errors = [(f"errors.{name}", str(fact).encode()) for name, fact in facts.items()]
    return record.key, record.value, [*record.headers, *errors]


def without_place(record: Stored) -> tuple[bytes | None, bytes | None, Headers]:
    return record.key, record.value, record.headers
