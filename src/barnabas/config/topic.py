"""The configuration of one partition's log: a topic's own settings over the broker's over the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import TOPIC
from barnabas.config.setting import MAX_LONG, Value
from barnabas.config.topic_settings import TOPIC_SYNONYMS

_WEEK_MS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Fields are named like topic settings, with underscores. What they mean is in `topic_settings`.

    The defaults are Kafka's, so that a test of the log needs to name only what it is about; a test compares
    them with the declarations.
    """

    cleanup_policy: frozenset[str] = frozenset(("delete",))
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * 3600 * 1000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = MAX_LONG
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_after_max_ms: int = 3600 * 1000
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = _WEEK_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = _WEEK_MS
    unclean_leader_election_enable: bool = False
    errors_deadletterqueue_group_enable: bool = False
    barnabas_delay_enable: bool = False
    barnabas_validate_records: str = "batch"
    barnabas_validate_max_bytes: int = 32 * 1024 * 1024
    barnabas_validate_max_headers: int = 10_000

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


_SETTING_OF_FIELD = {field.name: field.name.replace("_", ".") for field in fields(LogConfig)}
_FIELD_OF_SETTING = {name: field for field, name in _SETTING_OF_FIELD.items()}
_BROKERS_SETTING = {
    field: TOPIC_SYNONYMS[name][0].name for field, name in _SETTING_OF_FIELD.items() if name in TOPIC_SYNONYMS
}
_ONLY_OF_TOPICS = {
    field: TOPIC[name].default_value
    for field, name in _SETTING_OF_FIELD.items()
    if name not in TOPIC_SYNONYMS
}


def topic_log_config(broker_config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """What is in force for a topic with these settings of its own; raises ConfigError when one is wrong."""
    given: dict[str, Value] = {field: broker_config[name] for field, name in _BROKERS_SETTING.items()}
    given |= _ONLY_OF_TOPICS
    for name, text in overrides.items():
        if (field := _FIELD_OF_SETTING.get(name)) is not None:
            given[field] = TOPIC[name].parse(text)
    policy = given["cleanup_policy"]
    assert isinstance(policy, tuple)
    given_segment_bytes = topic_value(broker_config, overrides, "internal.segment.bytes")
    if given_segment_bytes is not None:
        given["segment_bytes"] = given_segment_bytes
    return LogConfig(**{**given, "cleanup_policy": frozenset(policy)})  # type: ignore[arg-type]


def topic_value(broker_config: BrokerConfig, overrides: Mapping[str, str], name: str) -> Value:
    """The value of one topic setting that is in force."""
    setting = TOPIC[name]
    if name in overrides:
        return setting.parse(overrides[name])
    synonyms = TOPIC_SYNONYMS.get(name)
    value: Value = broker_config[synonyms[0].name] if synonyms else setting.default_value
    return value
