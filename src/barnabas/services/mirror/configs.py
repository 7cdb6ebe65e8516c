"""Replicates topic configs from the source to the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.client import Client, raise_for
from barnabas.client.admin import DELETE, TOPIC, ConfigChange, alter_configs
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

DYNAMIC_TOPIC_CONFIG = 1  # config source: set on the topic, not inherited from the broker
AT_ONCE = 200  # topics per request

LEFT_ALONE = frozenset(
    {
        # Broker ids and replication settings belong to the target cluster.
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        # So does tiered storage.
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.copy.lag.ms",
        "remote.copy.lag.bytes",
        "local.retention.ms",
        "local.retention.bytes",
    }
)

Settings = dict[str, str]


async def own_settings(client: Client, topics: Iterable[str]) -> dict[str, Settings]:
    """Return the configs set on each topic, by name; deleted topics are omitted."""
    names, found = sorted(topics), dict[str, Settings]()
    for start in range(0, len(names), AT_ONCE):
        resources = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
            for name in names[start : start + AT_ONCE]
        ]
        response: DescribeConfigsResponse = await client.send_to_any(DescribeConfigsRequest(resources))
        for result in response.results:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise_for(result.error_code, result.error_message or result.resource_name)
            found[result.resource_name] = {
                config.name: config.value
                for config in result.configs
                if config.config_source == DYNAMIC_TOPIC_CONFIG and config.value is not None
            }
    return found


def to_follow(settings: Mapping[str, str]) -> Settings:
    return {name: value for name, value in settings.items() if name not in LEFT_ALONE}


def changes(source: Mapping[str, str], target: Mapping[str, str]) -> list[ConfigChange]:
    """Return the changes that make the target's configs equal to those of the source."""
    changes = to_follow(source)
    differing = [ConfigChange(name, value) for name, value in changes.items() if target.get(name) != value]
    surplus = [ConfigChange(name, None, DELETE) for name in to_follow(target) if name not in changes]
    return differing + surplus


async def follow_settings(target: Client, name: str, changes: Sequence[ConfigChange]) -> list[str]:
    """Apply changes, and return a message for each one that the target rejects."""
    if not changes:
        return []
    try:
        await alter_configs(target, TOPIC, name, changes)
        return []
    except KafkaError as error:
        if len(changes) == 1:
            return [f"the target rejects the setting {changes[0].name} of {name}: {error}"]
    refused: list[str] = []
    for change in changes:
        refused += await follow_settings(target, name, [change])
    return refused


def is_compacted(settings: Mapping[str, str]) -> bool:
    return "compact" in settings.get("cleanup.policy", "")
