"""The broker's settings that groups depend on."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.config.broker import BrokerConfig
from barnabas.groups.ledger import Bounds

# Kafka's own constant: a join of a new member that nobody answers is forgotten after five minutes.
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
    bounds: Bounds = field(default_factory=Bounds)


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
        bounds=Bounds(
            config["barnabas.groups.max"],
            config["barnabas.groups.max.members"],
            config["barnabas.groups.max.bytes"],
            config["barnabas.groups.max.subscribed.topics"],
        ),
    )
