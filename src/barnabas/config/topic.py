"""The configuration of one partition's log: a topic's own settings over the broker's over the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import TOPIC
from barnabas.config.setting import Value
from barnabas.config.topic_settings import TOPIC_SYNONYMS

C = TypeVar("C")


def _with_declared_defaults(config: type[C]) -> type[C]:
    """Give each field the default of the setting that it is named like."""
    for field in config.__annotations__:
        default: Any = TOPIC[field.replace("_", ".")].default_value
        setattr(config, field, frozenset(default) if field == "cleanup_policy" else default)
    return config


@dataclass(frozen=True, slots=True, kw_only=True)
@_with_declared_defaults
class LogConfig:
    """Fields are named like topic settings, with underscores. What they mean is in `topic_settings`.

    The defaults are those declared there, so that a test of the log names only what it is about.
    """

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    errors_deadletterqueue_group_enable: bool
    barnabas_delay_enable: bool
    barnabas_remote_compacted: str
    barnabas_remote_unclean_wait: bool
    barnabas_visible: str
    barnabas_remote_origin: str
    barnabas_validate_records: str
    barnabas_validate_max_bytes: int
    barnabas_validate_max_headers: int
    barnabas_validate_max_blocks: int

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


def topic_log_config(broker_config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """What is in force for a topic with these settings of its own; raises ConfigError when one is wrong."""
    given: dict[str, Value] = {field: broker_config[name] for field, name in _BROKERS_SETTING.items()}
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
