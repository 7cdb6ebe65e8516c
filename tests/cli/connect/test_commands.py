"""Commands about connectors that need no Spark."""

import json
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from barnabas.client.status import STATUS_TOPIC, ProcessStatus, StatusPart
from barnabas.connect.control_files import ControlFiles, LocalFolder
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli

COPY = """
name: copy
from: {topic: {topic: orders, schema: id BIGINT}}
to: {topic: {topic: copies}}
"""
ENTRY = 'v1\n{}\n{"orders":{"0":5}}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "copy.yml").write_text(COPY)
    return tmp_path / "copy.yml"


def state(file: Path) -> LocalFolder:
    return LocalFolder(file.parent / ".barnabas" / "connect" / "copy" / "barnabas")


def test_a_file_is_checked_without_spark(cli: Cli, file: Path) -> None:
    [found] = json.loads(cli.ok("connect", "validate", "--no-spark", str(file), "-o", "json").out)
    assert (found["from"], found["to"]) == ("topic orders", "topic copies")
    file.write_text(COPY.replace("schema", "shema"))
    wrong = cli("connect", "validate", "--no-spark", str(file))
    assert wrong.code == 1
    assert "line 3: unknown key `shema` in this section; did you mean `schema`?" in " ".join(
        wrong.err.split()
    )


def test_a_connector_is_paused_resumed_and_restarted_by_files(cli: Cli, file: Path) -> None:
    orders = ControlFiles(state(file))
    assert "pauses" in cli.ok("connect", "pause", str(file)).err
    assert orders.is_paused()
    assert "resumed" in cli.ok("connect", "resume", str(file)).err
    assert not orders.is_paused()
    assert "was not paused" in cli.ok("connect", "resume", str(file)).err
    cli.ok("connect", "restart", str(file))
    assert orders.take_restart()


def test_offsets_are_shown_and_set(cli: Cli, file: Path) -> None:
    assert "has not completed a batch yet" in cli.ok("connect", "offsets", str(file)).err
    checkpoint = state(file).below("checkpoints/rows")
    checkpoint.below("offsets").write_text("0", ENTRY)
    checkpoint.below("commits").write_text("0", "v1")
    shown = cli.ok("connect", "offsets", str(file), "--set", "orders:0=2", "-o", "json").out
    assert json.loads(shown) == [{"source": "orders", "partition": 0, "offset": 2}]
    assert cli("connect", "offsets", str(file), "--set", "orders").code == 2


def test_the_status_is_that_of_the_brokers(cli: Cli, broker: EmbeddedBroker, file: Path) -> None:
    assert "No connector has reported yet" in cli.ok("connect", "status", "never").err
    report = ProcessStatus(
        "connector",
        "copy",
        "retrying",
        updated=2**50,
        error="away",
        counts={"rows": 7},
        parts=[StatusPart("a to b", lag=3)],
    )
    cli.ok("topics", "create", STATUS_TOPIC, "--set", "cleanup.policy=compact", "--if-not-exists")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(STATUS_TOPIC, msgspec.json.encode(report), key=report.key)
    assert producer.flush(60) == 0
    [found] = json.loads(cli.ok("connect", "status", str(file), "-o", "json").out)
    assert (found["state"], found["rows"], found["lag"], found["error"]) == ("retrying", 7, 3, "away")
    cli.ok("connect", "status", "--forget", "copy")
    assert json.loads(cli.ok("connect", "status", "copy", "-o", "json").out) == []
