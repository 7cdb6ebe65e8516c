"""kafka_exporter's metrics on a single node, compared with what clients see."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.broker import exporter_metrics
from barnabas.broker.exporter_metrics import serves_exporter_metrics
from barnabas.config.broker import BrokerConfig
from barnabas.metrics import exporter_catalogue
from barnabas.testing import EmbeddedBroker

RECORDS = 10


@pytest.mark.parametrize(
    ("wanted", "zookeeper", "is_served"),
    [
        ("auto", "", True),
        ("auto", "localhost:2181", False),
        ("on", "localhost:2181", True),
        ("off", "", False),
    ],
)
def test_a_broker_in_a_cluster_leaves_the_exporters_metrics_to_the_console(
    wanted: str, zookeeper: str, is_served: bool
) -> None:
    settings = {"log.dirs": "unused", "barnabas.metrics.exporter": wanted}
    if zookeeper:
        settings["zookeeper.connect"] = zookeeper
    assert serves_exporter_metrics(BrokerConfig.load(settings)) is is_served


def test_disabled_metrics_are_not_declared() -> None:
    with EmbeddedBroker({"barnabas.metrics.exporter": "off"}) as broker:
        declared = {family.metric for family in broker.broker.metrics.families()}
    assert not declared & set(exporter_catalogue.CATALOGUE)


def test_single_node_reports_committed_offsets_and_lag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", partitions=3)
        broker.create_topic("quiet")
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer(settings)
        for number in range(RECORDS):
            producer.produce("orders", b"x", partition=number % 2)
        producer.flush()
        _commit(settings, "billing", [TopicPartition("orders", 0, 2), TopicPartition("orders", 1, 5)])
        _commit(settings, "mail", [TopicPartition("orders", 0, 1)])
        member = Consumer({**settings, "group.id": "readers"})
        member.subscribe(["quiet"])
        while not member.assignment():
            member.poll(0.1)
        found = broker.broker.metrics.snapshot()
        monkeypatch.setattr(exporter_metrics, "MAX_OFFSETS", 1)
        bounded = broker.broker.metrics.snapshot()
        member.close()
        address = broker.bootstrap_servers
    assert _of(found, "kafka_consumergroup_lag") == {
        "{consumergroup=billing,topic=orders,partition=0}": 3,
        "{consumergroup=billing,topic=orders,partition=1}": 0,
        "{consumergroup=mail,topic=orders,partition=0}": 4,
    }
    assert _of(found, "kafka_consumergroup_lag_sum") == {
        "{consumergroup=billing,topic=orders}": 3,
        "{consumergroup=mail,topic=orders}": 4,
    }
    assert (
        _of(found, "kafka_consumergroup_current_offset")["{consumergroup=mail,topic=orders,partition=0}"] == 1
    )
    assert _of(found, "kafka_consumergroup_current_offset_sum") == {
        "{consumergroup=billing,topic=orders}": 7,
        "{consumergroup=mail,topic=orders}": 1,
    }
    assert _of(found, "kafka_consumergroup_members") == {
        "{consumergroup=billing}": 0,
        "{consumergroup=mail}": 0,
        "{consumergroup=readers}": 1,
    }
    assert _of(found, "kafka_topic_partition_current_offset")["{topic=orders,partition=1}"] == 5
    assert _of(found, "kafka_broker_info") == {f"{{id=1,address={address}}}": 1}
    assert _of(found, "kafka_brokers") == {"": 1}
    # The number of partitions is limited; sums stay complete.
    assert len(_of(bounded, "kafka_consumergroup_lag")) == 1
    assert _of(bounded, "kafka_consumergroup_lag_sum") == _of(found, "kafka_consumergroup_lag_sum")


def _commit(settings: dict[str, str], group: str, offsets: list[TopicPartition]) -> None:
    wanted = ConsumerGroupTopicPartitions(group, offsets)
    admin = AdminClient({**settings})
    admin.alter_consumer_group_offsets([wanted])[group].result(30)


def _of(samples: object, name: str) -> dict[str, float]:
    assert isinstance(samples, dict)
    return {
        text.removeprefix(name): value for text, value in samples.items() if text.partition("{")[0] == name
    }
