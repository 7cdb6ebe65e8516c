"""Validation that only controller decisions reach; the handlers' tests cover the rest."""

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import Scope
from barnabas.config.validation import (
    check_broker_configs,
    check_client_metrics_configs,
    check_group_configs,
    check_topic_configs,
    list_default,
)


def test_compaction_lags_must_not_contradict_each_other() -> None:
    check_topic_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms \(10\) > max\.compaction\.lag\.ms \(5\)"):
        check_topic_configs({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_settings_of_kafka_without_a_use_here_can_be_changed_too() -> None:
    check_broker_configs({"num.io.threads": "16"}, per_broker=False)
    check_broker_configs({"listener.name.plaintext.ssl.keystore.location": "/x"}, per_broker=True)


@pytest.mark.parametrize("name", ["log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"])
def test_a_default_of_topics_has_the_bounds_of_the_topic_setting(name: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        check_broker_configs({name: "-1"}, per_broker=False)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


def test_a_groups_timings_are_bound_by_the_brokers() -> None:
    broker = BrokerConfig.load({"group.consumer.max.session.timeout.ms": "50000"})
    check_group_configs({"consumer.session.timeout.ms": "60000"})
    with pytest.raises(KafkaError, match=r"less than or equal to group\.consumer\.max\.session\.timeout\.ms"):
        check_group_configs({"consumer.session.timeout.ms": "60000"}, broker)
    with pytest.raises(KafkaError, match=r"group\.streams\.max\.standby\.replicas"):
        check_group_configs({"streams.num.standby.replicas": "3"}, broker)


def test_a_session_must_be_longer_than_a_heartbeat() -> None:
    broker = BrokerConfig.load(
        {"group.share.min.session.timeout.ms": "1000", "group.share.min.heartbeat.interval.ms": "1000"}
    )
    with pytest.raises(
        KafkaError, match=r"share\.session\.timeout\.ms must be greater than share\.heartbeat"
    ):
        check_group_configs({"share.session.timeout.ms": "5000"}, broker)
    check_group_configs({"share.session.timeout.ms": "5001"}, broker)


@pytest.mark.parametrize("text", ["latest", "earliest", "by_duration:P1DT2H3M4.5S", "by_duration:PT1H"])
def test_a_share_group_may_start_at_an_end_or_some_time_ago(text: str) -> None:
    check_group_configs({"share.auto.offset.reset": text})


@pytest.mark.parametrize(
    "text", ["none", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1H"]
)
def test_a_share_group_may_not_start_anywhere_else(text: str) -> None:
    with pytest.raises(KafkaError, match="by_duration:PnDTnHnMn"):
        check_group_configs({"share.auto.offset.reset": text})


def test_clients_are_matched_by_selector_and_pattern() -> None:
    check_client_metrics_configs({"match": "client_id=a.*, client_source_port=90[0-9]"})
    with pytest.raises(KafkaError, match="Illegal client matching pattern: colour=red"):
        check_client_metrics_configs({"match": "client_id=a,colour=red"})


def test_only_lists_can_be_appended_to() -> None:
    assert list_default(Scope.TOPIC, "cleanup.policy") == "delete"
    assert list_default(Scope.TOPIC, "leader.replication.throttled.replicas") == ""
    assert list_default(Scope.TOPIC, "retention.ms") is None
    assert list_default(Scope.BROKER, "log.cleanup.policy") == "delete"
    assert list_default(Scope.BROKER, "nonsense") is None
    assert list_default(Scope.CLIENT_METRICS, "metrics") == ""
