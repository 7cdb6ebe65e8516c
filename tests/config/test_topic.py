from dataclasses import fields

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import TOPIC
from barnabas.config.setting import ConfigError
from barnabas.config.topic import LogConfig, topic_log_config

DEFAULTS = BrokerConfig.load({})


def test_the_defaults_of_the_class_are_those_of_the_declarations() -> None:
    assert topic_log_config(DEFAULTS, {}) == LogConfig()


def test_every_topic_setting_is_a_field() -> None:
    names = {name.replace(".", "_") for name, setting in TOPIC.items() if not setting.internal}
    assert {field.name for field in fields(LogConfig)} == names


def test_a_topics_own_settings_are_stronger_than_the_brokers() -> None:
    broker = BrokerConfig.load({"log.retention.hours": "1", "compression.type": "lz4"})
    config = topic_log_config(broker, {"compression.type": "zstd", "cleanup.policy": "compact,delete"})
    assert (config.retention_ms, config.compression_type) == (3_600_000, "zstd")
    assert (config.compacted, config.deletes) == (True, True)


def test_a_run_time_change_for_all_brokers_reaches_topics() -> None:
    broker = DEFAULTS.with_dynamic({}, {"log.cleanup.policy": "compact", "message.max.bytes": "77"})
    config = topic_log_config(broker, {})
    assert (config.compacted, config.deletes, config.max_message_bytes) == (True, False, 77)


def test_no_cleanup_policy_keeps_everything() -> None:
    config = topic_log_config(DEFAULTS, {"cleanup.policy": ""})
    assert (config.compacted, config.deletes) == (False, False)


def test_tests_may_have_segments_smaller_than_a_topic_may() -> None:
    assert topic_log_config(DEFAULTS, {"internal.segment.bytes": "1000"}).segment_bytes == 1000
    with pytest.raises(ConfigError, match="at least 1048576"):
        topic_log_config(DEFAULTS, {"segment.bytes": "1000"})
