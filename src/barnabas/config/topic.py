"""Configuration of a partition's log: topic configs override broker settings, which override defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import TOPIC
from barnabas.config.setting import Value
from barnabas.config.topic_settings import TOPIC_SYNONYMS

C = TypeVar("C")


_DECLARED: Any = None  # replaced by `_with_declared_defaults`; makes all fields optional for type checkers


def _with_declared_defaults(config: type[C]) -> type[C]:
    """Set the default of each field to that of the setting with its name."""
    for field in config.__annotations__:
        default: Any = TOPIC[field.replace("_", ".")].default_value
        setattr(config, field, frozenset(default) if field == "cleanup_policy" else default)
    return config


@dataclass(frozen=True, slots=True, kw_only=True)
@_with_declared_defaults
class LogConfig:
    """Fields have the names of topic settings, with underscores; they are documented in `topic_settings`.

    The defaults are declared there, too, so that a test of the log sets only what it needs.
    """

    cleanup_policy: frozenset[str] = _DECLARED
    compression_gzip_level: int = _DECLARED
    compression_lz4_level: int = _DECLARED
    compression_type: str = _DECLARED
    compression_zstd_level: int = _DECLARED
    delete_retention_ms: int = _DECLARED
    file_delete_delay_ms: int = _DECLARED
    flush_messages: int = _DECLARED
    flush_ms: int = _DECLARED
    follower_replication_throttled_replicas: tuple[str, ...] = _DECLARED
    index_interval_bytes: int = _DECLARED
    leader_replication_throttled_replicas: tuple[str, ...] = _DECLARED
    local_retention_bytes: int = _DECLARED
    local_retention_ms: int = _DECLARED
    max_compaction_lag_ms: int = _DECLARED
    max_message_bytes: int = _DECLARED
    message_timestamp_after_max_ms: int = _DECLARED
    message_timestamp_before_max_ms: int = _DECLARED
    message_timestamp_type: str = _DECLARED
    min_cleanable_dirty_ratio: float = _DECLARED
    min_compaction_lag_ms: int = _DECLARED
    min_insync_replicas: int = _DECLARED
    preallocate: bool = _DECLARED
    remote_copy_lag_bytes: int = _DECLARED
    remote_copy_lag_ms: int = _DECLARED
    remote_log_copy_disable: bool = _DECLARED
    remote_log_delete_on_disable: bool = _DECLARED
    remote_storage_enable: bool = _DECLARED
    retention_bytes: int = _DECLARED
    retention_ms: int = _DECLARED
    segment_bytes: int = _DECLARED
    segment_index_bytes: int = _DECLARED
    segment_jitter_ms: int = _DECLARED
    segment_ms: int = _DECLARED
    unclean_leader_election_enable: bool = _DECLARED
    errors_deadletterqueue_group_enable: bool = _DECLARED
    barnabas_delay_enable: bool = _DECLARED
    barnabas_remote_compacted: str = _DECLARED
    barnabas_remote_unclean_wait: bool = _DECLARED
    barnabas_visible: str = _DECLARED
    barnabas_remote_origin: str = _DECLARED
    barnabas_validate_records: str = _DECLARED
    barnabas_validate_max_bytes: int = _DECLARED
    barnabas_validate_max_headers: int = _DECLARED
    barnabas_validate_max_blocks: int = _DECLARED

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
    """Return the effective configuration of a topic with these overrides; ConfigError for an invalid one."""
    values: dict[str, Value] = {field: broker_config[name] for field, name in _BROKERS_SETTING.items()}
    for name, text in overrides.items():
        if (field := _FIELD_OF_SETTING.get(name)) is not None:
            values[field] = TOPIC[name].parse(text)
    policy = values["cleanup_policy"]
    assert isinstance(policy, tuple)
    internal_segment_bytes = topic_value(broker_config, overrides, "internal.segment.bytes")
    if internal_segment_bytes is not None:
        values["segment_bytes"] = internal_segment_bytes
    return LogConfig(**{**values, "cleanup_policy": frozenset(policy)})  # type: ignore[arg-type]


def topic_value(broker_config: BrokerConfig, overrides: Mapping[str, str], name: str) -> Value:
    """Return the effective value of one topic setting."""
    setting = TOPIC[name]
    if name in overrides:
        return setting.parse(overrides[name])
    synonyms = TOPIC_SYNONYMS.get(name)
    value: Value = broker_config[synonyms[0].name] if synonyms else setting.default_value
    return value
