"""Kafka's cluster administration tools, against a complete broker."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.kafka.tools import ToolResult, run_tool

pytestmark = pytest.mark.java

TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic("moved", partitions=2)
        yield broker


def run(broker: EmbeddedBroker, tool: str, *arguments: str) -> ToolResult:
    return run_tool(tool, *arguments, "--bootstrap-server", broker.bootstrap_servers)


def test_kafka_topics_creates_grows_describes_and_deletes(broker: EmbeddedBroker) -> None:
    run(
        broker, TOPICS, "--create", "--topic", "orders", "--partitions", "3", "--config", "retention.ms=5000"
    ).check()
    again = run(broker, TOPICS, "--create", "--topic", "orders")
    assert (again.returncode, "Topic 'orders' already exists." in again.stdout) == (1, True)
    run(broker, TOPICS, "--alter", "--topic", "orders", "--partitions", "5").check()
    described = run(broker, TOPICS, "--describe", "--topic", "orders").check().stdout
    assert "PartitionCount: 5\tReplicationFactor: 1\tConfigs: retention.ms=5000" in described
    assert "Partition: 4\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: " in described
    run(broker, TOPICS, "--delete", "--topic", "orders").check()
    assert "orders" not in run(broker, TOPICS, "--list").check().stdout


def test_kafka_reassign_partitions_runs_and_verifies_a_plan(broker: EmbeddedBroker, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    partition = {"topic": "moved", "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    execute = run(broker, REASSIGN, "--reassignment-json-file", str(plan), "--execute").check()
    assert "Successfully started partition reassignment for moved-0" in execute.stdout
    verify = run(broker, REASSIGN, "--reassignment-json-file", str(plan), "--verify").check()
    assert "Reassignment of partition moved-0 is completed." in verify.stdout


def test_kafka_leader_election_finds_nothing_to_do(broker: EmbeddedBroker) -> None:
    tool = "org.apache.kafka.tools.LeaderElectionCommand"
    run(broker, tool, "--election-type", "preferred", "--all-topic-partitions").check()
    one = run(broker, tool, "--election-type", "preferred", "--topic", "moved", "--partition", "0").check()
    assert "Valid replica already elected for partitions moved-0" in one.stdout


def test_kafka_cluster_names_the_cluster_and_its_brokers(broker: EmbeddedBroker) -> None:
    tool = "org.apache.kafka.tools.ClusterTool"
    assert "Cluster ID: " in run(broker, tool, "cluster-id").check().stdout
    endpoints = run(broker, tool, "list-endpoints").check().stdout
    assert broker.bootstrap_servers.rpartition(":")[2] in endpoints
    refused = run(broker, tool, "unregister", "--id", "7")
    assert "Broker ID 7 is not currently registered" in refused.stderr
