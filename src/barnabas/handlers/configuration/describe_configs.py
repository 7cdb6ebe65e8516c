"""Config queries: values of resources, and the resources with configs.

- DescribeConfigs, versions 1 to 4: every setting with its value, source and synonyms. Version 3 added types and
  documentation. An empty list of keys asks for all of them, as null does.
- ListConfigResources, versions 0 and 1: version 0 knew client metrics only (KIP-1142).

Codes and texts of refusals were compared with those of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster import check_topic_name
from barnabas.cluster.image import ConfigResourceType, MetadataImage, Resource
from barnabas.common.cooperative import finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.describe import (
    ConfigEntry,
    ConfigSource,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from barnabas.handlers.configuration import alter_configs as loggers
from barnabas.handlers.configuration.config_resources import (
    invalid_request,
    number,
    require,
)
from barnabas.handlers.needs import HasConfig, HasImage
from barnabas.network.requests import RequestTurn, Result, run_or_continue_in_slices
from barnabas.protocol.messages.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from barnabas.protocol.wire import STEP

if TYPE_CHECKING:
    from barnabas.network.requests import Request


DESCRIBED_AT_ONCE = 10  # resources, each of which takes up to two milliseconds

_ALIKE = frozenset({ConfigResourceType.TOPIC, ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS})
"""Resources with the same settings, which share their rows."""

_RequestedNames = dict[Resource, set[str]]


class DescribeConfigsNeeds(HasConfig, HasImage, Protocol):
    """Broker attributes used by DescribeConfigs."""


# -- DescribeConfigs -----------------------------------------------------------------------------------


def describe_configs(
    broker: DescribeConfigsNeeds, request: Request, message: DescribeConfigsRequest
) -> Result[DescribeConfigsResponse]:
    """Describe each resource once, even if it is named repeatedly."""
    description = _Description(broker, message)
    if len(message.resources) <= DESCRIBED_AT_ONCE:
        wanted = finish(_wanted(message.resources))
        return DescribeConfigsResponse(results=[description.of(*item) for item in wanted.items()])
    request.is_large = True
    return _describe_in_turns(description, message.resources)


async def _describe_in_turns(
    description: _Description, resources: Iterable[DescribeConfigsResource]
) -> DescribeConfigsResponse:
    turn = RequestTurn()
    wanted = await turn.run(_wanted(resources))
    results = await turn.collect(wanted.items(), lambda item: description.of(*item))
    return DescribeConfigsResponse(results=results)


def _wanted(resources: Iterable[DescribeConfigsResource]) -> Generator[None, None, _RequestedNames]:
    """Settings requested for each resource; an empty set means all."""
    wanted: dict[Resource, set[str]] = {}
    for count, requested in enumerate(resources):
        resource = Resource(requested.resource_type, requested.resource_name)
        keys = set(requested.configuration_keys or ())
        earlier = wanted.get(resource)
        wanted[resource] = keys | earlier if keys and earlier else keys if earlier is None else set()
        if not count % STEP:
            yield
    return wanted


class _Description:
    """Describes resources for one request. Resources with the same settings share their rows."""

    def __init__(self, broker: DescribeConfigsNeeds, message: DescribeConfigsRequest) -> None:
        self._broker = broker
        self._message = message
        self._shared: dict[tuple[int, tuple[tuple[str, str], ...]], list[DescribeConfigsResourceResult]] = {}
        self._room: int = broker.config["barnabas.response.max.bytes"]

    def of(self, resource: Resource, keys: set[str]) -> DescribeConfigsResult:
        # Kafka's answer is an empty text, never null.
        result = DescribeConfigsResult(
            error_message="", resource_type=resource.type, resource_name=resource.name
        )
        try:
            rows = self._rows(resource)
            result.configs = [row for row in rows if row.name in keys] if keys else rows
            self._take_room(result.configs)
        except KafkaError as error:
            result.configs = []
            result.error_code = error.code
            result.error_message = error.message
        return result

    def _take_room(self, rows: list[DescribeConfigsResourceResult]) -> None:
        self._room -= sum(map(_size, rows))
        if self._room < 0:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                "The response would exceed barnabas.response.max.bytes: request fewer resources at a time.",
            )

    def _rows(self, resource: Resource) -> list[DescribeConfigsResourceResult]:
        if resource.type == ConfigResourceType.BROKER_LOGGER:
            return _logger_rows(self._broker, resource.name)
        _check_described(self._broker, resource)
        overrides = self._broker.image.configs.get(resource, {})
        key = (resource.type, tuple(overrides.items()))
        rows = self._shared.get(key) if resource.type in _ALIKE else None
        if rows is None:
            rows = [_row(entry, self._message) for entry in _entries(self._broker, resource, overrides)]
            self._shared[key] = rows
        return rows


def _size(row: DescribeConfigsResourceResult) -> int:
    """Estimate the size of a row on the wire."""
    return (
        20
        + len(row.name)
        + len(row.value or "")
        + len(row.documentation or "")
        + sum(10 + len(each.name) + len(each.value or "") for each in row.synonyms)
    )


def _check_described(broker: DescribeConfigsNeeds, resource: Resource) -> None:
    """Refuse to describe a resource that does not exist."""
    kind, name = resource
    if kind == ConfigResourceType.TOPIC:
        check_topic_name(name)
        if name not in broker.image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif kind == ConfigResourceType.GROUP:
        require(name, "Group name must not be empty")
    elif kind == ConfigResourceType.CLIENT_METRICS:
        require(name, "Client metrics subscription name must not be empty")
    elif kind != ConfigResourceType.BROKER:
        raise invalid_request(f"Unsupported resource type: {kind}")


def _entries(
    broker: DescribeConfigsNeeds, resource: Resource, overrides: Mapping[str, str]
) -> list[ConfigEntry]:
    if resource.type == ConfigResourceType.TOPIC:
        return describe_topic(broker.config, overrides)
    if resource.type == ConfigResourceType.BROKER:
        return _broker_entries(broker, resource.name)
    if resource.type == ConfigResourceType.GROUP:
        return describe_group(broker.config, overrides)
    return describe_client_metrics(overrides)


def _broker_entries(broker: DescribeConfigsNeeds, name: str) -> list[ConfigEntry]:
    if not name:
        return describe_all_brokers(broker.config)
    if number(name, "Broker id") != broker.node_id:
        raise invalid_request(
            f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
        )
    return describe_broker(broker.config)


def _row(entry: ConfigEntry, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if message.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in synonyms],
        config_type=entry.kind,
        documentation=entry.documentation if message.include_documentation else None,
    )


def _logger_rows(broker: DescribeConfigsNeeds, name: str) -> list[DescribeConfigsResourceResult]:
    require(name, "Broker id must not be empty")
    if number(name, "Broker id") != broker.node_id:
        raise invalid_request(f"Unexpected broker id, expected {broker.node_id} but received {name}")
    return [
        DescribeConfigsResourceResult(
            name=logger, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER, documentation=None
        )
        for logger, level in loggers.levels().items()
    ]


# -- ListConfigResources -------------------------------------------------------------------------------


def list_config_resources(
    broker: DescribeConfigsNeeds, request: Request, message: ListConfigResourcesRequest
) -> Result[ListConfigResourcesResponse]:
    if request.version == 0:
        wanted: Iterable[int] = (ConfigResourceType.CLIENT_METRICS,)
    else:
        wanted = dict.fromkeys(message.resource_types) or tuple(ConfigResourceType)
    if any(kind not in tuple(ConfigResourceType) for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return run_or_continue_in_slices(request, _listing(broker.image, wanted))


def _listing(
    image: MetadataImage, wanted: Iterable[int]
) -> Generator[None, None, ListConfigResourcesResponse]:
    response = ListConfigResourcesResponse()
    for kind in wanted:
        for name in _names(image, kind):
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
            if not len(response.config_resources) % STEP:
                yield
    return response


def _names(image: MetadataImage, kind: int) -> Iterable[str]:
    """Names of resources with configs: all topics and brokers, and others that have overrides."""
    if kind == ConfigResourceType.TOPIC:
        return image.topics
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        return map(str, image.brokers)
    return (
        resource.name for resource, settings in image.configs.items() if resource.type == kind and settings
    )
