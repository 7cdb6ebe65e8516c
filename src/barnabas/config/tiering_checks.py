"""Validation of the settings of tiered topics, with the messages of Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.config.topic import LogConfig, topic_log_config

AS_TOTAL = -2
UNLIMITED = -1

COPY = "copy"
"""Value of `barnabas.remote.compacted`."""

NOT_ENABLED = (
    "Tiered Storage functionality is disabled in the broker. "
    "Topic cannot be configured with remote log storage."
)
NOT_COMPACTED = (
    "Remote log storage only supports topics with cleanup.policy=delete or "
    "cleanup.policy being an empty list."
)
NOT_WITHOUT_DELETING = (
    "It is invalid to disable remote storage without deleting remote data. "
    "If you want to keep the remote data and turn to read only, please set "
    "`remote.storage.enable=true,remote.log.copy.disable=true`. "
    "If you want to disable remote storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)


NOT_COMPACTED_LATER = (
    "A tiered topic cannot become a compacted topic: only its local segments would be compacted. Create a compacted "
    "topic with `barnabas.remote.compacted=copy` and copy the records."
)


def check_tiered_topic(
    configs: Mapping[str, str], broker: BrokerConfig, *, is_internal: bool = False
) -> None:
    """Raise ConfigError if these configs enable tiering for a topic that cannot be tiered. The compacted topics of
    coordinators cannot, as in Kafka: a restore uses separate copies of groups."""
    config = topic_log_config(broker, configs)
    if not config.remote_storage_enable:
        return
    if not broker["remote.log.storage.system.enable"]:
        raise ConfigError(NOT_ENABLED)
    if config.compacted and (is_internal or config.barnabas_remote_compacted != COPY):
        raise ConfigError(NOT_COMPACTED)
    if config.remote_log_copy_disable:
        _check_same(config)
    _check_local("bytes", config.local_retention_bytes, config.retention_bytes)
    _check_local("ms", config.local_retention_ms, config.retention_ms)
    _check_copy_lag(
        "bytes", config.remote_copy_lag_bytes, config.local_retention_bytes, config.retention_bytes
    )
    _check_copy_lag("ms", config.remote_copy_lag_ms, config.local_retention_ms, config.retention_ms)


def is_tiered(configs: Mapping[str, str | None]) -> bool:
    """True for a topic with these configs that enables tiering."""
    return (configs.get("remote.storage.enable") or "").strip().lower() == "true"


def is_disabled_without_deleting(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """True if the change would disable tiering and leave remote segments behind."""
    return is_tiered(before) and not is_tiered(after) and not _is_true(after, "remote.log.delete.on.disable")


def becomes_compacted(before: Mapping[str, str], after: Mapping[str, str], broker: BrokerConfig) -> bool:
    """True if the change would turn a tiered topic into a compacted one."""
    was, is_now = topic_log_config(broker, before), topic_log_config(broker, after)
    return was.remote_storage_enable and not was.compacted and is_now.compacted


def _is_true(configs: Mapping[str, str], name: str) -> bool:
    return configs.get(name, "").strip().lower() == "true"


def _check_same(config: LogConfig) -> None:
    limits = {
        "ms": (config.local_retention_ms, config.retention_ms),
        "bytes": (config.local_retention_bytes, config.retention_bytes),
    }
    for unit, (local, total) in limits.items():
        if local not in (AS_TOTAL, total):
            raise ConfigError(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` "
                "must be set to the identical value because there will be no more logs copied to the remote storage."
            )


def _check_local(unit: str, local: int, total: int) -> None:
    """Check that local retention does not exceed total retention."""
    if total == UNLIMITED or local == AS_TOTAL:
        return
    if local == UNLIMITED:
        problem = f"Value must not be {UNLIMITED} as retention.{unit} value is set as {total}."
    elif local > total:
        problem = f"Value must not be more than retention.{unit} property value: {total}"
    else:
        return
    raise ConfigError(f"Invalid value {local} for configuration local.retention.{unit}: {problem}")


def _check_copy_lag(unit: str, lag: int, local: int, total: int) -> None:
    """Check that segments are copied before local retention would delete them."""
    limit = total if local == AS_TOTAL else local
    if lag > 0 and limit != UNLIMITED and lag > limit:
        raise ConfigError(
            f"Invalid value {lag} for configuration remote.copy.lag.{unit}: Value must not exceed "
            f"local.retention.{unit} (effective value: {limit})"
        )
