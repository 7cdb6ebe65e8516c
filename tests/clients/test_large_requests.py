"""Large requests of administrators: Metadata of 50,000 partitions, CreateTopics of 5,000."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.cluster.image import PartitionState, TopicState
from barnabas.common.errors import ErrorCode
from barnabas.common.types import new_uuid
from barnabas.protocol.codec import decode_whole
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from barnabas.testing import EmbeddedBroker
from tests.support.extremes import Steps, ask, sparing
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool
from tests.support.server import frame

TOPICS = 5_000
PARTITIONS_OF_EACH = 10
MAX_STEP = 0.050
TIMEOUT = 100
TOOL = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with sparing(), EmbeddedBroker() as broker:
        yield broker


def give_topics(broker: EmbeddedBroker) -> None:
    """Topics of a broker that is not there: in the metadata, without a file anywhere."""
    partition = PartitionState((2,), (2,), 2, 0, 0)
    topics = [
        TopicState(f"topic-{number}", new_uuid(), (partition,) * PARTITIONS_OF_EACH)
        for number in range(TOPICS)
    ]
    running = broker._running_broker()
    running.image = msgspec.structs.replace(
        running.image,
        topics={topic.name: topic for topic in topics},
        topic_names_by_id={topic.topic_id: topic.name for topic in topics},
    )


@pytest.mark.slow
def test_clients_see_the_metadata_of_fifty_thousand_partitions(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.list_topics(timeout=TIMEOUT)
    give_topics(broker)
    admin.list_topics(timeout=TIMEOUT)  # compiles its codecs
    steps = Steps(monkeypatch)
    found = admin.list_topics(timeout=TIMEOUT).topics
    assert sum(len(topic.partitions) for topic in found.values()) == TOPICS * PARTITIONS_OF_EACH
    assert steps.longest < MAX_STEP, f"{steps.longest * 1000:.0f} ms in {steps.what}"


@pytest.mark.slow
@requires_java
def test_kafkas_admin_lists_and_describes_fifty_thousand_partitions(broker: EmbeddedBroker) -> None:
    give_topics(broker)
    server = ("--bootstrap-server", broker.bootstrap_servers)
    assert len(run_tool(TOOL, *server, "--list", timeout=TIMEOUT).check().stdout.split()) == TOPICS
    described = run_tool(TOOL, *server, "--describe", timeout=TIMEOUT).check().stdout
    assert described.count("\tPartition: ") == TOPICS * PARTITIONS_OF_EACH


@pytest.mark.slow
def test_five_thousand_topics_are_created_by_one_request(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    configs = {"retention.ms": "1000000", "cleanup.policy": "delete", "segment.bytes": "1048576"}
    wanted = [NewTopic(f"topic-{number}", 2, 1, config=configs) for number in range(TOPICS)]
    admin.create_topics(wanted[:200], validate_only=True)["topic-0"].result(TIMEOUT)  # compiles its codecs
    steps = Steps(monkeypatch)
    created = admin.create_topics(wanted, validate_only=True, request_timeout=TIMEOUT)
    for future in created.values():
        future.result(TIMEOUT)
    assert len(created) == TOPICS
    assert steps.longest < MAX_STEP, f"{steps.longest * 1000:.0f} ms in {steps.what}"


def test_kafkas_bound_on_new_partitions_holds_for_a_request_that_is_served_in_parts(
    broker: EmbeddedBroker,
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = [NewTopic(f"topic-{number}", 101, 1) for number in range(100)]
    for future in admin.create_topics(wanted).values():
        with pytest.raises(KafkaException, match="Excessively large number of partitions"):
            future.result(TIMEOUT)


def test_a_name_that_is_repeated_far_away_in_the_same_request_is_refused(broker: EmbeddedBroker) -> None:
    names = [f"topic-{number}" for number in range(200)] + ["topic-0"]
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names],
        timeout_ms=30_000,
        validate_only=True,
    )
    answer = ask(broker.port, frame(request, 7))
    assert answer is not None
    results = decode_whole(CreateTopicsResponse, 7, answer, 5).topics
    assert sorted(result.name for result in results) == sorted(set(names))
    refused = [(result.name, result.error_code) for result in results if result.error_code]
    assert refused == [("topic-0", ErrorCode.INVALID_REQUEST)]
