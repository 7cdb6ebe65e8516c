"""Dynamic configs of topics, brokers, loggers, groups and client metrics.

- AlterConfigs, versions 0 to 2: replace all overrides of a resource.
- IncrementalAlterConfigs, versions 0 and 1: set, delete, append to or subtract from single settings (KIP-339).

Codes and texts of refusals were compared with those of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Generator, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.cluster.image import ConfigResourceType, Resource
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.controller import Decision
from barnabas.controller import configs as decide
from barnabas.controller.configs import ConfigOperation, ConfigOperationType, Results
from barnabas.handlers.configuration.config_resources import (
    check_number_of_settings,
    check_resource,
    invalid_request,
    rules,
)
from barnabas.handlers.needs import HasConfig, HasController, HasImage, IsMember
from barnabas.network.requests import RequestTurn
from barnabas.protocol.messages.configs import (
    AlterConfigsAlterConfigsResource,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request


# -- TLS configs: a key store that is not usable is refused, as in Kafka -------------------------------
# Only files of this broker are checked; other brokers check theirs when they apply the change.

_TLS = "ssl."


class TlsConfigCheck(Protocol):
    def check(self, config: BrokerConfig) -> Awaitable[None]:
        """Raise ConfigError if the key stores of these settings are not usable."""
        ...


class Sockets(Protocol):
    @property
    def tls(self) -> TlsConfigCheck: ...


class HasTls(Protocol):
    @property
    def sockets(self) -> Sockets: ...


class TlsNeeds(HasConfig, HasImage, HasTls, Protocol):
    """Broker attributes used to check TLS settings."""


async def take_out_unusable(broker: TlsNeeds, wanted: dict[Resource, list[ConfigOperation]]) -> Results:
    """Remove this broker's change from `requested` if it is not usable, and return the error."""
    own = Resource(ConfigResourceType.BROKER, str(broker.node_id))
    operations = wanted.get(own, [])
    if not any(_TLS in operation.name for operation in operations):
        return {}
    try:
        await broker.sockets.tls.check(_changed(broker, own, operations))
    except ConfigError as error:
        del wanted[own]
        return {own: KafkaError(ErrorCode.INVALID_REQUEST, str(error))}
    return {}


def _changed(broker: TlsNeeds, own: Resource, operations: list[ConfigOperation]) -> BrokerConfig:
    """Return the resulting config; list operations and invalid values are left to the controller."""
    settings = dict(broker.image.configs.get(own, {}))
    for each in operations:
        if each.operation == ConfigOperationType.SET and each.value is not None:
            settings[each.name] = each.value
        elif each.operation == ConfigOperationType.DELETE:
            settings.pop(each.name, None)
    return broker.config.with_dynamic(settings, broker.config.cluster_wide)


# -- Loggers of the broker, with Kafka's level names (KIP-412) -----------------------------------------

ROOT = "root"

# Python has no level below DEBUG; 5 is the usual value for TRACE.
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def levels() -> dict[str, str]:
    """Effective levels of the Barnabas loggers and the root logger."""
    ours = [name for name in logging.root.manager.loggerDict if _is_ours(name)]
    return {name: _level_name(_logger(name)) for name in (ROOT, *sorted(ours))}


def check(name: str, level: str | None, known: Container[str]) -> None:
    """Raise KafkaError unless this logger accepts this level; None removes its level."""
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is None and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
    if level is not None and level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )


def set_level(name: str, level: str | None) -> None:
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def change(operations: Iterable[ConfigOperation], validate_only: bool) -> KafkaError | None:
    """Set all levels, or none."""
    try:
        known = levels()
        wanted = [(operation.name, _new_level(operation)) for operation in operations]
        for name, level in wanted:
            check(name, level, known)
    except KafkaError as error:
        return error
    if not validate_only:
        for name, level in wanted:
            set_level(name, level)
    return None


def _new_level(operation: ConfigOperation) -> str | None:
    if operation.operation == ConfigOperationType.DELETE:
        return None
    if operation.operation != ConfigOperationType.SET:
        name = "APPEND" if operation.operation == ConfigOperationType.APPEND else "SUBTRACT"
        raise invalid_request(f"{name} operation is not allowed for the BROKER_LOGGER resource")
    if operation.value is None:
        raise invalid_request(f"Null value not supported for : {operation.name}")
    return operation.value


def _is_ours(name: str) -> bool:
    return name == "barnabas" or name.startswith("barnabas.")


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    return next((name for name, level in reversed(LEVELS.items()) if level <= effective), "TRACE")


class ConfigsNeeds(HasConfig, HasController, HasTls, IsMember, Protocol):
    """Broker attributes used by the config handlers."""

    refused_configs: int
    """Number of changes beyond barnabas.configs.max.resources."""


async def alter_configs(
    broker: ConfigsNeeds, request: Request, message: AlterConfigsRequest
) -> AlterConfigsResponse:
    def prepare(resource: Resource, requested: AlterConfigsAlterConfigsResource) -> dict[str, str | None]:
        check_number_of_settings(requested.configs)
        if resource.type == ConfigResourceType.BROKER_LOGGER:
            raise invalid_request(f"Unknown resource type {resource.type}")
        check_resource(broker.node_id, broker.image.brokers, resource)
        settings = {config.name: config.value for config in requested.configs}
        if len(settings) != len(requested.configs):
            raise invalid_request("Error due to duplicate config keys")
        return settings

    wanted, results = await RequestTurn().run(_prepare_all(message.resources, prepare))
    checks = rules(broker.config, is_alone=broker.is_alone)
    results |= await _submit(
        broker,
        wanted,
        lambda image: decide.alter_configs(
            image, wanted, checks, broker.policy, validate_only=message.validate_only
        ),
    )
    return AlterConfigsResponse(responses=_responses(message.resources, results))


async def incremental_alter_configs(
    broker: ConfigsNeeds, request: Request, message: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    def prepare(
        resource: Resource, requested: IncrementalAlterConfigsAlterConfigsResource
    ) -> list[ConfigOperation]:
        check_number_of_settings(requested.configs)
        check_resource(broker.node_id, broker.image.brokers, resource)
        return [
            ConfigOperation(config.name, config.config_operation, config.value)
            for config in requested.configs
        ]

    wanted, results = await RequestTurn().run(_prepare_all(message.resources, prepare))
    levels = {resource: wanted.pop(resource) for resource in list(wanted) if _is_logger(resource)}
    for resource, operations in levels.items():
        results[resource] = change(operations, message.validate_only)
    results |= await take_out_unusable(broker, wanted)
    checks = rules(broker.config, is_alone=broker.is_alone)
    results |= await _submit(
        broker,
        wanted,
        lambda image: decide.incremental_alter_configs(
            image, wanted, checks, broker.policy, validate_only=message.validate_only
        ),
    )
    return IncrementalAlterConfigsResponse(responses=_responses(message.resources, results))


class _Asked(Protocol):
    resource_type: int
    resource_name: str


A = TypeVar("A", bound=_Asked)
T = TypeVar("T")


def _prepare_all(
    resources: Iterable[A], prepare: Callable[[Resource, A], T]
) -> Generator[None, None, tuple[dict[Resource, T], Results]]:
    """Return the change of each resource, and the refused resources with their errors. In steps: each may
    have many settings.
    """
    asked_for = [
        (Resource(requested.resource_type, requested.resource_name), requested) for requested in resources
    ]
    times = Counter(resource for resource, _ in asked_for)
    ready: dict[Resource, T] = {}
    refused: Results = {}
    for resource, requested in asked_for:
        try:
            if times[resource] > 1:
                raise invalid_request("Each resource must appear at most once.")
            ready[resource] = prepare(resource, requested)
        except KafkaError as error:
            refused[resource] = error
        yield
    return ready, refused


async def _submit(broker: ConfigsNeeds, wanted: Iterable[Resource], decision: Decision[Results]) -> Results:
    try:
        results: Results = await broker.controller.submit(decision)
    except KafkaError as error:
        return dict.fromkeys(wanted, error)
    if any(error and error.code is ErrorCode.POLICY_VIOLATION for error in results.values()):
        broker.refused_configs += 1
    return results


def _responses(resources: Iterable[_Asked], results: Results) -> list[AlterConfigsResourceResponse]:
    responses = []
    for requested in resources:
        error = results[Resource(requested.resource_type, requested.resource_name)]
        responses.append(
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message or None,
                resource_type=requested.resource_type,
                resource_name=requested.resource_name,
            )
        )
    return responses


def _is_logger(resource: Resource) -> bool:
    return resource.type == ConfigResourceType.BROKER_LOGGER
