"""Settings of tiered storage. Rejections were compared with Apache Kafka 4.3.1 and its LocalTieredStorage."""

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.config.describe import describe_broker
from barnabas.config.setting import ConfigError
from barnabas.config.tiering_checks import is_disabled_without_deleting
from barnabas.config.topic import topic_log_config
from barnabas.config.validation import check_topic_configs

STORE = {"remote.log.storage.system.enable": "true", "barnabas.remote.storage.url": "file:///remote"}
BROKER = BrokerConfig.load(STORE)
ON = {"remote.storage.enable": "true"}
NO_COPIES = {**ON, "remote.log.copy.disable": "true"}

COMPACTED = (
    "Remote log storage only supports topics with cleanup.policy=delete or "
    "cleanup.policy being an empty list."
)


def identical(unit: str) -> str:
    return (
        f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` must "
        "be set to the identical value because there will be no more logs copied to the remote storage."
    )


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({**ON, "cleanup.policy": "compact"}, COMPACTED),
        ({**ON, "cleanup.policy": "compact,delete"}, COMPACTED),
        (
            {**ON, "local.retention.ms": "1000", "retention.ms": "100"},
            (
                "Invalid value 1000 for configuration local.retention.ms: "
                "Value must not be more than retention.ms property value: 100"
            ),
        ),
        (
            {**ON, "local.retention.ms": "-1", "retention.ms": "100"},
            (
                "Invalid value -1 for configuration local.retention.ms: "
                "Value must not be -1 as retention.ms value is set as 100."
            ),
        ),
        (
            {**ON, "local.retention.bytes": "1000", "retention.bytes": "100"},
            (
                "Invalid value 1000 for configuration local.retention.bytes: "
                "Value must not be more than retention.bytes property value: 100"
            ),
        ),
        (
            {**ON, "local.retention.bytes": "-1", "retention.bytes": "100"},
            (
                "Invalid value -1 for configuration local.retention.bytes: "
                "Value must not be -1 as retention.bytes value is set as 100."
            ),
        ),
        (
            {**ON, "local.retention.ms": "999999999999"},
            (
                "Invalid value 999999999999 for configuration local.retention.ms: "
                "Value must not be more than retention.ms property value: 604800000"
            ),
        ),
        (
            {**ON, "local.retention.ms": "1000", "remote.copy.lag.ms": "1001"},
            (
                "Invalid value 1001 for configuration remote.copy.lag.ms: "
                "Value must not exceed local.retention.ms (effective value: 1000)"
            ),
        ),
        (
            {**ON, "retention.bytes": "100", "remote.copy.lag.bytes": "101"},
            (
                "Invalid value 101 for configuration remote.copy.lag.bytes: "
                "Value must not exceed local.retention.bytes (effective value: 100)"
            ),
        ),
        ({**NO_COPIES, "local.retention.ms": "5"}, identical("ms")),
        ({**NO_COPIES, "local.retention.bytes": "7"}, identical("bytes")),
    ],
)
def test_a_tiered_topic_is_refused_with_kafkas_words(settings: dict[str, str], text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topic_configs(settings, BROKER)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_CONFIG, text)


@pytest.mark.parametrize(
    "settings",
    [
        ON,
        NO_COPIES,
        {**ON, "retention.ms": "1000"},
        {**ON, "cleanup.policy": ""},
        {**ON, "remote.copy.lag.ms": "-1", "remote.copy.lag.bytes": "1000000"},
        {**ON, "retention.ms": "-1", "remote.copy.lag.ms": "1000000"},
        {**ON, "local.retention.ms": "10", "retention.ms": "-1"},
        {**NO_COPIES, "local.retention.ms": "5", "retention.ms": "5"},
        {"local.retention.ms": "1000", "retention.ms": "100"},
        {"remote.log.copy.disable": "true", "remote.log.delete.on.disable": "true"},
    ],
)
def test_input_accepted_by_kafka_is_accepted(settings: dict[str, str]) -> None:
    check_topic_configs(settings, BROKER)


def test_a_broker_without_tiered_storage_has_no_tiered_topics() -> None:
    with pytest.raises(KafkaError) as caught:
        check_topic_configs({**ON, "cleanup.policy": "compact"}, BrokerConfig.load({}))
    assert caught.value.message == (
        "Tiered Storage functionality is disabled in the broker. "
        "Topic cannot be configured with remote log storage."
    )


@pytest.mark.parametrize(
    ("after", "refused"),
    [
        ({}, True),
        ({"remote.storage.enable": "false"}, True),
        ({"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}, False),
        (NO_COPIES, False),
    ],
)
def test_tiering_ends_only_with_the_deletion_of_remote_segments(after: dict[str, str], refused: bool) -> None:
    assert is_disabled_without_deleting(ON, after) is refused
    assert not is_disabled_without_deleting({}, after)


def test_tiered_storage_needs_an_object_store() -> None:
    with pytest.raises(ConfigError, match=r"barnabas\.remote\.storage\.url is not set"):
        BrokerConfig.load({"remote.log.storage.system.enable": "true"})


def test_options_of_the_object_store_are_passed_on_and_never_shown() -> None:
    config = BrokerConfig.load({**STORE, "rsm.config.secret_access_key": "s3cret", "rsm.config.region": "eu"})
    assert config.store_options == {"secret_access_key": "s3cret", "region": "eu"}
    assert config.warnings == ()
    shown = {entry.name: entry.value for entry in describe_broker(config)}
    assert shown["rsm.config.secret_access_key"] is None
    assert shown["rsm.config.region"] is None
    assert shown["barnabas.remote.storage.url"] == "file:///remote"


def test_new_replica_copies_only_the_tail_by_default() -> None:
    assert BrokerConfig.load({})["follower.fetch.last.tiered.offset.enable"] is True


def test_the_local_part_of_all_topics_is_limited_by_the_brokers_settings() -> None:
    config = BrokerConfig.load({**STORE, "log.local.retention.ms": "77", "log.local.retention.bytes": "88"})
    log = topic_log_config(config, ON)
    assert (log.local_retention_ms, log.local_retention_bytes) == (77, 88)
