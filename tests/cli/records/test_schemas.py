"""`--schema` of produce and consume: JSON on the terminal, serialized values in the topic."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from barnabas.client.schemas.client import Schema, SchemaClient
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli

AVRO = (
    '{"type":"record","name":"Order","fields":['
    '{"name":"id","type":"long"},{"name":"note","type":["null","string"]}]}'
)
JSON = '{"type":"object","properties":{"id":{"type":"integer"},"note":{"type":"string"}}}'
PROTOBUF = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; string note = 2; google.protobuf.Timestamp at = 3; }
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as made:
        yield made


@pytest.mark.parametrize(("kind", "text"), [("AVRO", AVRO), ("JSON", JSON), ("PROTOBUF", PROTOBUF)])
def test_produce_and_consume_formats_round_trip(broker: EmbeddedBroker, kind: str, text: str) -> None:
    topic, cli = broker.create_topic(), Cli(broker.bootstrap_servers)
    with SchemaClient(broker.registry_url) as client:
        client.register(f"{topic}-value", Schema(kind, text))
    order = {"id": 7, "note": "paid"}
    arguments = ("--schema", "--registry", broker.registry_url)
    cli.ok("produce", topic, *arguments, "--value", json.dumps(order), "--key", "k")
    shown = cli.ok("consume", topic, "--from", "beginning", "-e", "-o", "json", *arguments).json
    assert shown["key"] == "k"
    assert {name: str(value) for name, value in shown["value"].items()} == {"id": "7", "note": "paid"}
    bare = cli.ok("consume", topic, "--from", "beginning", "-e", *arguments).out
    assert json.loads(bare)["note"] == "paid"


def test_a_value_that_does_not_fit_is_refused(broker: EmbeddedBroker) -> None:
    topic, cli = broker.create_topic(), Cli(broker.bootstrap_servers)
    arguments = ("--schema", "--registry", broker.registry_url)
    missing = cli("produce", topic, *arguments, "--value", "{}")
    assert missing.code == 1
    assert "not found" in missing.err
    with SchemaClient(broker.registry_url) as client:
        client.register(f"{topic}-value", Schema("AVRO", AVRO))
    wrong = cli("produce", topic, *arguments, "--value", '{"id": "seven"}')
    assert wrong.code == 1
    assert "does not match schema" in wrong.err


def test_a_value_without_a_schema_id_is_shown_as_it_is(broker: EmbeddedBroker) -> None:
    topic, cli = broker.create_topic(), Cli(broker.bootstrap_servers)
    cli.ok("produce", topic, "--value", "plain")
    arguments = ("--schema", "--registry", broker.registry_url)
    shown = cli.ok("consume", topic, "--from", "beginning", "-e", *arguments)
    assert shown.out == "plain\n"
    assert "schema id" in shown.err
