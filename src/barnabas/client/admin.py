"""Administration: topics, partitions, records, configuration. Rejections raise KafkaError."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.client.cluster import Client, raise_for
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.cluster import (
    DescribableLogDirTopic,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    FeatureUpdateKey,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.messages.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from barnabas.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.protocol.schema import Message

BROKER_DEFAULT = -1  # lets the broker's num.partitions or default.replication.factor decide
ALL_RECORDS = -1  # delete records up to the high watermark

# Resource types of the configuration APIs.
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

# Where a value comes from, by DescribeConfigs' numbers.
SET_ON_TOPIC, SET_ON_BROKER, SET_ON_ALL_BROKERS, DEFAULT_VALUE, SET_ON_GROUP = 1, 2, 3, 5, 8
CONFIG_SOURCES = {
    SET_ON_TOPIC: "topic",
    SET_ON_BROKER: "broker (changed while it runs)",
    SET_ON_ALL_BROKERS: "all brokers (changed while they run)",
    4: "broker's properties",
    DEFAULT_VALUE: "default",
    6: "broker logger",
    7: "client metrics",
    SET_ON_GROUP: "group",
}

# Operations of IncrementalAlterConfigs.
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    value: str | None = None
    operation: int = SET


async def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatableTopicResult:
    """Returns when the controller has stored the topic."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_timeout_ms(client), validate_only=validate_only)
    response: CreateTopicsResponse = await _change(client, request)
    result = response.topics[0]
    raise_for(result.error_code, result.error_message or "")
    return result


async def delete_topics(client: Client, names: Iterable[str]) -> None:
    wanted = list(names)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in wanted],
        topic_names=wanted,
        timeout_ms=_timeout_ms(client),
    )
    response: DeleteTopicsResponse = await _change(client, request)
    for result in response.responses:
        raise_for(result.error_code, result.error_message or f"topic {result.name!r}")


async def create_partitions(client: Client, topic: str, count: int) -> None:
    """Grow a topic to `count` partitions."""
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=_timeout_ms(client))
    response: CreatePartitionsResponse = await _change(client, request)
    for result in response.results:
        raise_for(result.error_code, result.error_message or "")


async def delete_records(client: Client, partition: TopicPartition, before: int = ALL_RECORDS) -> int:
    """Remove what is older than an offset; returns the new log start offset."""
    part = DeleteRecordsPartition(partition_index=partition.partition, offset=before)
    topics = [DeleteRecordsTopic(name=partition.topic, partitions=[part])]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=_timeout_ms(client))
    response: DeleteRecordsResponse = await client.send_to_leader(
        partition, request, lambda answer: answer.topics[0].partitions[0].error_code
    )
    return response.topics[0].partitions[0].low_watermark


async def finalize_feature(client: Client, name: str, level: int) -> None:
    """Finalize a feature level; rejected while a broker does not support it."""
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(name, level)])
    response: UpdateFeaturesResponse = await _change(client, request)
    raise_for(response.error_code, response.error_message or "")
    for result in response.results:
        raise_for(result.error_code, result.error_message or "")


async def describe_configs(
    client: Client, resource_type: int, name: str, *, documentation: bool = False
) -> list[DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=documentation
    )
    response: DescribeConfigsResponse = await _send_to_owner(client, resource_type, name, request)
    result = response.results[0]
    raise_for(result.error_code, result.error_message or "")
    return sorted(result.configs, key=lambda config: config.name)


async def setting_of_topics(client: Client, names: Iterable[str], setting: str) -> dict[str, str | None]:
    """One setting of many topics, in one request. Topics deleted meanwhile are left out."""
    return {
        name: found.get(setting)
        for name, found in (await settings_of_topics(client, names, [setting])).items()
    }


async def settings_of_topics(
    client: Client, names: Iterable[str], settings: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    """Some settings of many topics, in one request. Topics deleted meanwhile are left out."""
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=list(settings))
        for name in names
    ]
    response: DescribeConfigsResponse = await client.send_to_any(DescribeConfigsRequest(resources=resources))
    found = {}
    for result in response.results:
        if result.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise_for(result.error_code, result.error_message or "")
            found[result.resource_name] = {each.name: each.value for each in result.configs}
    return found


async def alter_configs(
    client: Client,
    resource_type: int,
    name: str,
    changes: Iterable[ConfigChange],
    *,
    validate_only: bool = False,
) -> None:
    configs = [
        IncrementalAlterConfigsAlterableConfig(
            name=change.name, config_operation=change.operation, value=change.value
        )
        for change in changes
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    response: IncrementalAlterConfigsResponse = await _send_to_owner(client, resource_type, name, request)
    for result in response.responses:
        raise_for(result.error_code, result.error_message or "")


async def list_config_resources(client: Client, types: Iterable[int]) -> list[ConfigResource]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    response: ListConfigResourcesResponse = await client.send_to_any(request)
    raise_for(response.error_code)
    return response.config_resources


async def describe_cluster(client: Client) -> DescribeClusterResponse:
    response: DescribeClusterResponse = await client.send_to_any(DescribeClusterRequest())
    raise_for(response.error_code, response.error_message or "")
    return response


async def describe_log_dirs(
    client: Client, broker_id: int, topics: Mapping[str, Iterable[int]] | None = None
) -> list[DescribeLogDirsResult]:
    """Log directories with the sizes of all replicas, or of the given partitions."""
    wanted = (
        None
        if topics is None
        else [DescribableLogDirTopic(name, list(indexes)) for name, indexes in topics.items()]
    )
    response: DescribeLogDirsResponse = await client.send_to_broker(
        broker_id, DescribeLogDirsRequest(topics=wanted)
    )
    raise_for(response.error_code)
    return response.results


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Unregister a broker that will not return."""
    response: UnregisterBrokerResponse = await _change(client, UnregisterBrokerRequest(broker_id=broker_id))
    raise_for(response.error_code, response.error_message or "")


async def _change(client: Client, request: Message) -> Any:
    """Send to the controller; retry once with fresh metadata after NOT_CONTROLLER."""
    response = await client.send_to_controller(request)
    if _moved(response):
        await client.refresh([])
        response = await client.send_to_controller(request)
    return response


def _moved(response: Message) -> bool:
    results = getattr(response, "topics", None) or getattr(response, "responses", None) or ()
    return any(getattr(result, "error_code", 0) == ErrorCode.NOT_CONTROLLER for result in results)


async def _send_to_owner(client: Client, resource_type: int, name: str, request: Message) -> Any:
    """Send broker configuration requests to that broker, others to any broker."""
    if resource_type not in (BROKER, BROKER_LOGGER) or not name:
        return await client.send_to_any(request)
    if not is_broker_id(name):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{name[:20]!r} is not a valid broker id: expected a number"
        )
    return await client.send_to_broker(int(name), request)


def is_broker_id(text: str) -> bool:
    """True for a number of 32 bits: longer texts are rejected before they are converted."""
    return text.isascii() and text.isdecimal() and len(text) <= 10


def _timeout_ms(client: Client) -> int:
    return int(client.request_timeout * 1000)
