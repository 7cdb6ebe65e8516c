"""The harness itself: if these fail, every comparison with Apache Kafka is worthless."""

from pathlib import Path

import pytest

from tests.apache_kafka import ApacheKafka, answers_api_versions, free_port, run_tool
from tests.kafka_jars import requires_java


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


def test_nothing_answers_on_a_free_port() -> None:
    assert not answers_api_versions("127.0.0.1", free_port())
