"""Broker settings of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.config.broker import BrokerConfig
from barnabas.config.coordinator_settings import GROUP_SYNONYMS
from barnabas.config.definitions import GROUP
from barnabas.config.setting import ConfigError
from barnabas.groups.memory_budget import MemoryLimits

# -- Settings of a single group: what was set for it (a config resource of type GROUP), else the broker's default

Overrides = Callable[[str], Mapping[str, str]]
"""Group configs by group id."""

Defaults = Callable[[str], Any]
"""Value of a broker setting by its name."""


def _nothing(group_id: str) -> Mapping[str, str]:
    return {}


class GroupConfigs:
    """`configs.value("orders", "consumer.session.timeout.ms")`; read each time, so changes take effect immediately."""

    def __init__(self, overrides: Overrides = _nothing, defaults: Defaults | None = None) -> None:
        self._overrides = overrides
        self._defaults = defaults

    def value(self, group_id: str, name: str) -> Any:  # the type of a value depends on the setting
        text = self._overrides(group_id).get(name)
        if text is not None:
            try:
                return GROUP[name].parse(text)
            except ConfigError:
                pass  # stored by another version: fall back to the default
        if self._defaults is not None and name in GROUP_SYNONYMS:
            return self._defaults(GROUP_SYNONYMS[name])
        return GROUP[name].default_value

    def milliseconds(self, group_id: str, name: str) -> int:
        return int(self.value(group_id, name))


# Kafka's constant: the join of a new member that is not answered expires after five minutes.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Named as in Kafka's settings, without their prefixes."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    streams_max_size: int = 2**31 - 1
    streams_description_max_bytes: int = 128 * 1024
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_ms: int = 600_000
    commit_timeout_ms: int = 5000
    consumer_max_size: int = 2**31 - 1
    assignors: list[str] = field(default_factory=lambda: ["uniform", "range"])
    migration_policy: str = "bidirectional"
    regex_refresh_ms: int = 600_000
    share_max_size: int = 200
    share_initialize_retry_ms: int = 30_000
    bounds: MemoryLimits = field(default_factory=MemoryLimits)


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        max_size=config["group.max.size"],
        streams_max_size=config["group.streams.max.size"],
        streams_description_max_bytes=config["barnabas.streams.topology.description.max.bytes"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
        offsets_retention_check_ms=config["offsets.retention.check.interval.ms"],
        commit_timeout_ms=config["offsets.commit.timeout.ms"],
        consumer_max_size=config["group.consumer.max.size"],
        assignors=list(config["group.consumer.assignors"]),
        migration_policy=config["group.consumer.migration.policy"].lower(),
        regex_refresh_ms=config["group.consumer.regex.refresh.interval.ms"],
        share_max_size=config["group.share.max.size"],
        share_initialize_retry_ms=config["group.share.initialize.retry.interval.ms"],
        bounds=MemoryLimits(
            config["barnabas.groups.max"],
            config["barnabas.groups.max.members"],
            config["barnabas.groups.max.bytes"],
            config["barnabas.groups.max.subscribed.topics"],
            config["barnabas.groups.max.member.metadata.bytes"],
        ),
    )
