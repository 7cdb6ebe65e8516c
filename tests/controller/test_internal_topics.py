import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.validation import check_topic_configs
from barnabas.controller.decision import ControllerPolicy
from barnabas.controller.internal_topics import internal_topic
from barnabas.controller.topics import CreatedTopic, create_topics
from tests.support.builders.images import cluster_of


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
@pytest.mark.parametrize("brokers", [1, 2, 5])
def test_an_internal_topic_can_be_created_in_a_cluster_of_any_size(name: str, brokers: int) -> None:
    image = cluster_of(brokers)
    topic = internal_topic(BrokerConfig.load({}), image, name)
    assert topic is not None
    _, results = create_topics(image, [topic], ControllerPolicy(check_topic_configs=check_topic_configs))
    created = results[name]
    assert isinstance(created, CreatedTopic)
    assert created.replication_factor == min(3, brokers)
    assert len(created.state.partitions) == 50
    assert int(created.configs.get("min.insync.replicas", "1")) <= created.replication_factor


def test_its_settings_come_from_the_broker() -> None:
    config = BrokerConfig.load(
        {"transaction.state.log.num.partitions": "7", "transaction.state.log.segment.bytes": "2097152"}
    )
    topic = internal_topic(config, cluster_of(1), "__transaction_state")
    assert topic is not None
    assert (topic.partitions, topic.configs["segment.bytes"]) == (7, "2097152")
    assert topic.configs["cleanup.policy"] == "compact"


def test_other_topics_are_not_internal() -> None:
    assert internal_topic(BrokerConfig.load({}), cluster_of(1), "__mine") is None
