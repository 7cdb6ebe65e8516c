"""Tests of the Apache Kafka harness, on which all comparisons depend."""

import subprocess
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka, answers_api_versions
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool
from tests.support.programs import free_port


@requires_java
@pytest.mark.slow
def test_a_real_kafka_starts_serves_its_tools_and_stops(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path / "kafka", heap="256m") as kafka:
        address = ("--bootstrap-server", kafka.bootstrap_servers)
        created = run_tool("org.apache.kafka.tools.TopicCommand", *address, "--create", "--topic", "orders")
        assert created.returncode == 0, created.stderr
        listed = run_tool("org.apache.kafka.tools.TopicCommand", *address, "--list").check()
        assert "orders" in listed.stdout.split()
    assert not answers_api_versions("127.0.0.1", kafka.port)


@requires_java
def test_a_failing_tool_reports_its_return_code_and_words() -> None:
    result = run_tool("org.apache.kafka.tools.TopicCommand", "--no-such-option")
    assert result.returncode != 0
    with pytest.raises(AssertionError, match="no-such-option"):
        result.check()


@requires_java
@pytest.mark.slow
def test_tools_leave_nothing_behind_for_the_next_one(barnabas_topic: str, barnabas: EmbeddedBroker) -> None:
    """They share a JVM; the console consumer counts its records in a static field."""
    address = ("--bootstrap-server", barnabas.bootstrap_servers, "--topic", barnabas_topic)
    run_tool("org.apache.kafka.tools.ConsoleProducer", *address, stdin="one\ntwo\n").check()
    both = ("--from-beginning", "--max-messages", "2")
    for _ in range(2):
        read = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *address, *both).check()
        assert read.stdout.split() == ["one", "two"]


@requires_java
def test_a_tool_that_takes_too_long_is_ended_and_the_next_one_works(barnabas: EmbeddedBroker) -> None:
    address = ("--bootstrap-server", barnabas.bootstrap_servers)
    with pytest.raises(subprocess.TimeoutExpired):
        run_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", *address, "--topic", "nothing", timeout=0.1
        )
    assert run_tool("org.apache.kafka.tools.TopicCommand", *address, "--list").returncode == 0


def test_nothing_answers_on_a_free_port() -> None:
    assert not answers_api_versions("127.0.0.1", free_port())
