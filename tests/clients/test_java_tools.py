"""Kafka's command-line tools, unmodified. Each call starts a JVM, so each test covers several cases."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import consume, produce
from tests.support.kafka.tools import run_tool

pytestmark = pytest.mark.java

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"


def tool(bootstrap: str, name: str, *args: str, stdin: str | None = None) -> str:
    return run_tool(name, "--bootstrap-server", bootstrap, *args, stdin=stdin).check().stdout


def test_kafka_topics_creates_lists_describes_changes_and_deletes(bootstrap: str) -> None:
    name = "java-made"
    create = tool(
        bootstrap, TOPICS, "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=60000"
    )
    assert f"Created topic {name}." in create
    assert name in tool(bootstrap, TOPICS, "--list").split()
    tool(bootstrap, TOPICS, "--alter", "--topic", name, "--partitions", "3")
    described = tool(bootstrap, TOPICS, "--describe", "--topic", name)
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs:.*retention.ms=60000", described)
    assert len(re.findall(r"Partition: \d\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 3
    tool(bootstrap, TOPICS, "--delete", "--topic", name)
    assert name not in tool(bootstrap, TOPICS, "--list").split()


def test_kafka_topics_reports_errors(bootstrap: str, topic: str) -> None:
    failed = run_tool(TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic)
    assert failed.returncode != 0
    assert f"Topic '{topic}' already exists" in failed.stdout + failed.stderr


def test_kafka_configs_describes_and_alters_topics_and_brokers(bootstrap: str, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool(
        bootstrap,
        CONFIGS,
        *entity,
        "--alter",
        "--add-config",
        "retention.ms=1234,cleanup.policy=[compact,delete]",
    )
    described = tool(bootstrap, CONFIGS, *entity, "--describe", "--all")
    assert "retention.ms=1234" in described
    assert "cleanup.policy=compact,delete" in described
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in described
    tool(bootstrap, CONFIGS, *entity, "--alter", "--delete-config", "retention.ms,cleanup.policy")
    assert "retention.ms" not in tool(bootstrap, CONFIGS, *entity, "--describe")
    everywhere = ("--entity-type", "brokers", "--entity-default")
    tool(bootstrap, CONFIGS, *everywhere, "--alter", "--add-config", "log.retention.ms=777777")
    assert "retention.ms=777777" in tool(bootstrap, CONFIGS, *entity, "--describe", "--all")
    tool(bootstrap, CONFIGS, *everywhere, "--alter", "--delete-config", "log.retention.ms")


def test_offsets_are_listed_and_records_deleted(bootstrap: str, topic: str, tmp_path: Path) -> None:
    produce(bootstrap, topic, [b"%d" % number for number in range(10)])
    assert tool(bootstrap, GET_OFFSETS, "--topic", topic).strip() == f"{topic}:0:10"
    request = tmp_path / "delete.json"
    request.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]})
    )
    assert "low_watermark: 4" in tool(bootstrap, DELETE_RECORDS, "--offset-json-file", str(request))
    assert tool(bootstrap, GET_OFFSETS, "--topic", topic, "--time", "earliest").strip() == f"{topic}:0:4"
    directories = tool(bootstrap, LOG_DIRS, "--describe", "--topic-list", topic)
    (answer,) = [json.loads(line) for line in directories.splitlines() if line.startswith("{")]
    (partition,) = answer["brokers"][0]["logDirs"][0]["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 0


def test_the_console_tools_write_and_read(bootstrap: str, topic: str) -> None:
    tool(
        bootstrap,
        CONSOLE_PRODUCER,
        "--topic",
        topic,
        "--reader-property",
        "parse.key=true",
        stdin="a\t1\nb\t2\n",
    )
    read = tool(
        bootstrap, CONSOLE_CONSUMER, "--topic", topic, "--partition", "0", "--offset", "earliest",
        "--max-messages", "2", "--formatter-property", "print.key=true", "--timeout-ms", "15000",
    )  # fmt: skip
    assert read.splitlines() == ["a\t1", "b\t2"]


def test_the_producer_performance_tool_is_served(bootstrap: str, topic: str) -> None:
    done = run_tool(
        PRODUCER_PERFORMANCE, "--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={bootstrap}", "compression.type=lz4",
    ).check()  # fmt: skip
    assert "5000 records sent" in done.stdout
    assert len(consume(bootstrap, topic, 5000)) == 5000


def test_versions_features_and_cluster_are_reported(broker: EmbeddedBroker, bootstrap: str) -> None:
    versions = tool(bootstrap, API_VERSIONS)
    assert "UNSUPPORTED" not in versions.split("Produce(0)")[1].split("\n")[0]
    assert "Produce(0): 0 to 13 [usable: 13]" in versions
    assert "Fetch(1): 4 to 18 [usable: 18]" in versions
    tool(bootstrap, FEATURES, "describe")
    cluster_id = run_tool(CLUSTER, "cluster-id", "--bootstrap-server", bootstrap).check().stdout
    assert broker.broker.cluster_id in cluster_id


def test_elections_and_reassignments_get_the_truthful_answers_of_one_node(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    elected = tool(bootstrap, ELECTION, "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Valid replica already elected" in elected
    plan = tmp_path / "plan.json"
    move = {"topic": topic, "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    executed = tool(bootstrap, REASSIGN, "--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignment" in executed
    verified = tool(bootstrap, REASSIGN, "--reassignment-json-file", str(plan), "--verify")
    assert f"Reassignment of partition {topic}-0 is completed" in verified
    assert "No partition reassignments found" in tool(bootstrap, REASSIGN, "--list")
