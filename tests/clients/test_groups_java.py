"""Java consumers and Kafka's group tools, unmodified. Each call starts a JVM, so each test covers several cases."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import produce
from tests.support.consumers import ConfluentWorker, Load, Processed
from tests.support.kafka.tools import java_command, run_tool
from tests.support.waiting import until

pytestmark = pytest.mark.java

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer"
PARTITIONS = 6


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def bootstrap(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers


def groups(bootstrap: str, *args: str) -> str:
    return run_tool(GROUPS, "--bootstrap-server", bootstrap, *args).check().stdout


def commit(bootstrap: str, group: str, *partitions: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=list(partitions), asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (place,) = consumer.committed([TopicPartition(topic, partition)], 60)
    consumer.close()
    return int(place.offset)


def test_kafka_consumer_groups_describes_a_group_with_members(broker: EmbeddedBroker, bootstrap: str) -> None:
    topic = broker.create_topic(partitions=2)
    for partition in (0, 1):
        produce(bootstrap, topic, [b"x"] * 10, partition=partition)
    processed = Processed()
    worker = ConfluentWorker(bootstrap, topic, "described", processed, client_id="a-client")
    until(lambda: len(processed) == 20, "all records are processed")
    until(lambda: committed(bootstrap, "described", topic, 1) == 10, "all is committed")
    assert re.search(r"described\s+Stable", groups(bootstrap, "--list", "--state", "Stable"))
    shown = groups(bootstrap, "--describe", "--group", "described")
    assert len(re.findall(rf"described\s+{topic}\s+\d\s+10\s+10\s+0\s+a-client-\S+\s+/127.0.0.1", shown)) == 2
    members = groups(bootstrap, "--describe", "--group", "described", "--members", "--verbose")
    assert re.search(rf"a-client-\S+\s+/127.0.0.1\s+a-client\s+2\s+.*{topic}:0,1", members)
    state = groups(bootstrap, "--describe", "--group", "described", "--state")
    assert re.search(r"described\s+127.0.0.1:\d+\s+\(1\)\s+range\s+Stable\s+1", state)
    refused = run_tool(GROUPS, "--bootstrap-server", bootstrap, "--delete", "--group", "described")
    assert "NON_EMPTY_GROUP" in refused.stdout + refused.stderr or "not empty" in (
        refused.stdout + refused.stderr
    )
    worker.leave()


# All of them end in the same two requests of the broker; these ask it for different kinds of offsets.
RESETS: list[tuple[tuple[str, ...], int]] = [
    (("--to-earliest",), 0),
    (("--to-datetime", "2100-01-01T00:00:00.000"), 10),
    (("--shift-by", "-2"), 8),
]


def test_kafka_consumer_groups_resets_exports_and_deletes(
    broker: EmbeddedBroker, bootstrap: str, tmp_path: Path
) -> None:
    topic = broker.create_topic(partitions=1)
    produce(bootstrap, topic, [b"x"] * 10)
    commit(bootstrap, "reset", TopicPartition(topic, 0, 7))
    for option, expected in RESETS:
        shown = groups(
            bootstrap, "--reset-offsets", "--group", "reset", "--topic", topic, *option, "--execute"
        )
        assert re.search(rf"reset\s+{topic}\s+0\s+{expected}", shown), option
        assert committed(bootstrap, "reset", topic) == expected, option
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,3\n")
    groups(bootstrap, "--reset-offsets", "--group", "reset", "--from-file", str(plan), "--execute")
    assert committed(bootstrap, "reset", topic) == 3
    groups(bootstrap, "--delete-offsets", "--group", "reset", "--topic", topic)
    assert committed(bootstrap, "reset", topic) < 0
    assert "successful" in groups(bootstrap, "--delete", "--group", "reset")
    assert "reset" not in groups(bootstrap, "--list").split()


def test_kafka_reads_the_records_of_the_internal_topic(broker: EmbeddedBroker, bootstrap: str) -> None:
    topic = broker.create_topic(partitions=1)
    processed = Processed()
    produce(bootstrap, topic, [b"x"] * 3)
    worker = ConfluentWorker(bootstrap, topic, "formatted", processed, client_id="reader")
    until(lambda: committed(bootstrap, "formatted", topic) == 3, "the offset is committed")
    worker.leave()
    offsets = formatted(bootstrap, "OffsetsMessageFormatter", "formatted")
    assert offsets[-1]["key"]["data"] == {"group": "formatted", "topic": topic, "partition": 0}
    assert offsets[-1]["value"]["version"] == 4
    assert offsets[-1]["value"]["data"]["offset"] == 3
    generations = [
        record["value"] for record in formatted(bootstrap, "GroupMetadataMessageFormatter", "formatted")
    ]
    full, empty = generations[-2]["data"], generations[-1]["data"]
    assert generations[-1]["version"] == 3
    assert (full["generation"], full["protocol"], full["protocolType"]) == (1, "range", "consumer")
    assert full["members"][0]["clientId"] == "reader"
    assert full["members"][0]["memberId"] == full["leader"]
    assert (empty["generation"], empty["members"], empty["leader"]) == (2, [], None)


def formatted(bootstrap: str, formatter: str, group: str) -> list[dict[str, Any]]:
    """The records of a group. On a busy machine the consumer may find nothing in the time that it is first given."""
    for patience_ms in (2_000, 10_000, 30_000):
        args = ("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", str(patience_ms))
        style = ("--formatter", f"{FORMATTERS}.{formatter}", "--formatter-property", "print.key=true")
        result = run_tool(CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, *args, *style)
        found = [record for record in concatenated(result.stdout) if of(record, group)]
        if found:
            return found
    raise AssertionError(f"no record of {group}: {result.stderr}")


def concatenated(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects one after the other: the formatters put nothing between them."""
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        document, end = decoder.raw_decode(text, position)
        yield document
        position = text.find("{", end)


def of(record: dict[str, Any], group: str) -> bool:
    return bool(record["key"]["data"]["group"] == group)


class JavaConsumer:
    """Kafka's VerifiableConsumer, which prints its assignment and consumed records as JSON."""

    def __init__(self, bootstrap: str, topic: str, group: str, processed: Processed, *args: str) -> None:
        self.assigned: set[int] = set()
        self._processed = processed
        session = () if "--group-protocol" in args else ("--session-timeout", "6000")
        command = java_command(
            VERIFIABLE_CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"),
            *("--reset-policy", "earliest", *session, *args),
        )
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._hear(json.loads(line) if line.startswith("{") else {})

    def _hear(self, event: dict[str, Any]) -> None:
        partitions = {place["partition"] for place in event.get("partitions", ()) if "partition" in place}
        if event.get("name") == "partitions_assigned":
            self.assigned |= partitions
        elif event.get("name") == "partitions_revoked":
            self.assigned -= partitions
        elif event.get("name") == "record_data":
            self._processed.add(event["partition"], event["offset"])

    def leave(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._reader.join(60)


@pytest.mark.parametrize(
    "assignor", ["CooperativeStickyAssignor", pytest.param("RangeAssignor", marks=pytest.mark.extended)]
)
def test_java_consumers_come_and_go_under_load(broker: EmbeddedBroker, bootstrap: str, assignor: str) -> None:
    topic = broker.create_topic(partitions=PARTITIONS)
    processed = Processed()
    load = Load(bootstrap, topic, PARTITIONS, per_second=500)
    strategy = ("--assignment-strategy", f"org.apache.kafka.clients.consumer.{assignor}")
    first = JavaConsumer(bootstrap, topic, assignor, processed, *strategy)
    second = JavaConsumer(bootstrap, topic, assignor, processed, *strategy)

    def shared(*consumers: JavaConsumer) -> bool:
        owned = [consumer.assigned for consumer in consumers]
        return all(owned) and sum(map(len, owned)) == PARTITIONS

    until(lambda: shared(first, second), "two Java consumers share the partitions")
    first.leave()
    until(lambda: shared(second), "the other one has everything")
    sent = load.stop()
    until(lambda: processed.includes(sent), "all records are processed")
    second.leave()
    assert set(processed.counts) == sent
