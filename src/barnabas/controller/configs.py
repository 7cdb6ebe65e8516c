"""Settings of topics, brokers and groups change: all at once (AlterConfigs) or one by one (KIP-339)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from barnabas.cluster.deltas import ConfigsChanged, Delta
from barnabas.cluster.features import DEAD_LETTERS_LEVEL, SHARE_VERSION
from barnabas.cluster.image import ConfigResourceType, MetadataImage, Resource
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.setting import MAX_INT
from barnabas.config.tiering_checks import NOT_COMPACTED_LATER
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.controller.restoring import check_change, deletion_by_settings
from barnabas.controller.settings import ALL_BROKERS, follow_settings


class ConfigOperationType(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigOperation:
    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ConfigRules:
    """Config definitions that decisions use.

    `check` raises a KafkaError if these overrides of this resource are invalid. `list_default` returns
    the value that
    APPEND and SUBTRACT start from when nothing is set, and None for a config that is not a list.
    `permanent` are
    the cluster-wide configs that can be changed but not removed.
    """

    check: Callable[[Resource, Mapping[str, str]], None]
    list_default: Callable[[Resource, str], str | None]
    permanent: frozenset[str] = frozenset()
    max_invented: int = MAX_INT
    """Limit of groups and client metrics with configs: unlike topics and brokers, they need not exist."""
    becomes_compacted: Callable[[Mapping[str, str], Mapping[str, str]], bool] = lambda before, after: False
    """True if this change compacts a topic that has remote segments."""


DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"

INVENTED = (ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS)

Results = dict[Resource, KafkaError | None]


def alter_configs(
    image: MetadataImage,
    requested: Mapping[Resource, Mapping[str, str | None]],
    rules: ConfigRules,
    policy: ControllerPolicy,
    *,
    validate_only: bool = False,
) -> Decided[Results]:
    """Replace all configs of each resource; omitted ones return to their default."""

    def target(resource: Resource) -> dict[str, str]:
        return {name: _not_null(name, value) for name, value in requested[resource].items()}

    return _change(image, requested, target, rules, policy, validate_only)


def incremental_alter_configs(
    image: MetadataImage,
    requested: Mapping[Resource, Sequence[ConfigOperation]],
    rules: ConfigRules,
    policy: ControllerPolicy,
    *,
    validate_only: bool = False,
) -> Decided[Results]:
    def target(resource: Resource) -> dict[str, str]:
        return _after_operations(image, resource, requested[resource], rules)

    return _change(image, requested, target, rules, policy, validate_only)


def _change(
    image: MetadataImage,
    resources: Mapping[Resource, object],
    target: Callable[[Resource], dict[str, str]],
    rules: ConfigRules,
    policy: ControllerPolicy,
    validate_only: bool,
) -> Decided[Results]:
    """Change each resource separately: one failure does not affect the others."""
    deltas: list[Delta] = []
    results: Results = {}
    room = rules.max_invented - invented_resources(image)
    for resource in resources:
        is_invented = resource.type in INVENTED and resource not in image.configs
        try:
            _check_exists(image, resource)
            if is_invented and room <= 0:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"as many groups and client metrics have settings as barnabas.configs.max.resources allows "
                    f"({rules.max_invented}): remove those that are not needed",
                )
            values = target(resource)
            rules.check(resource, values)
            _check_dead_letters(image, resource, values)
            _check_remote_part(image, resource, values, rules)
            _check_permanent(image, resource, values, rules)
        except KafkaError as error:
            results[resource] = error
        else:
            results[resource] = None
            deltas += [*_difference(image, resource, values), *_remote_deletion(image, resource, values)]
            room -= is_invented
    if validate_only:
        return [], results
    return [*deltas, *follow_settings(image, deltas, policy)], results


def invented_resources(image: MetadataImage) -> int:
    return sum(resource.type in INVENTED for resource in image.configs)


def _difference(image: MetadataImage, resource: Resource, values: Mapping[str, str]) -> list[Delta]:
    current = image.configs.get(resource, {})
    changed: dict[str, str | None] = {
        name: value for name, value in values.items() if current.get(name) != value
    }
    changed |= dict.fromkeys(name for name in current if name not in values)
    return [ConfigsChanged(resource.type, resource.name, changed)] if changed else []


def _check_permanent(
    image: MetadataImage, resource: Resource, values: Mapping[str, str], rules: ConfigRules
) -> None:
    if resource == ALL_BROKERS:
        for name in rules.permanent & image.configs.get(resource, {}).keys() - values.keys():
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cluster-level {name} cannot be removed: the leaders and the controller must agree on it. "
                "Set it to the value it shall have.",
            )


def _check_remote_part(
    image: MetadataImage, resource: Resource, values: Mapping[str, str], rules: ConfigRules
) -> None:
    """Check that disabling tiering of a topic also permits deleting its remote part."""
    if resource.type != ConfigResourceType.TOPIC:
        return
    check_change(image, image.topics[resource.name], values)
    if rules.becomes_compacted(image.configs.get(resource, {}), values):
        raise KafkaError(ErrorCode.INVALID_CONFIG, NOT_COMPACTED_LATER)


def _remote_deletion(image: MetadataImage, resource: Resource, values: Mapping[str, str]) -> list[Delta]:
    if resource.type != ConfigResourceType.TOPIC:
        return []
    return deletion_by_settings(image, image.topics[resource.name], values)


def _check_dead_letters(image: MetadataImage, resource: Resource, values: Mapping[str, str]) -> None:
    """Below the feature level, a group may change its dead-letter topic, but not get its first one."""
    if resource.type != ConfigResourceType.GROUP or not values.get(DEAD_LETTER_TOPIC):
        return
    has_one = bool(image.configs.get(resource, {}).get(DEAD_LETTER_TOPIC))
    if not has_one and image.features.get(SHARE_VERSION, 0) < DEAD_LETTERS_LEVEL:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{DEAD_LETTER_TOPIC} needs {SHARE_VERSION}={DEAD_LETTERS_LEVEL}: finalize it with kafka-features",
        )


def _check_exists(image: MetadataImage, resource: Resource) -> None:
    if resource.type == ConfigResourceType.TOPIC and resource.name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")


def _after_operations(
    image: MetadataImage, resource: Resource, operations: Sequence[ConfigOperation], rules: ConfigRules
) -> dict[str, str]:
    names = [operation.name for operation in operations]
    if len(set(names)) != len(names):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys: each may be named once."
        )
    values = dict(image.configs.get(resource, {}))
    for operation in operations:
        _operate(values, resource, operation, rules)
    return values


def _operate(
    values: dict[str, str], resource: Resource, operation: ConfigOperation, rules: ConfigRules
) -> None:
    name = operation.name
    if operation.operation == ConfigOperationType.DELETE:
        values.pop(name, None)
    elif operation.operation == ConfigOperationType.SET:
        values[name] = _not_null(name, operation.value)
    elif operation.operation in (ConfigOperationType.APPEND, ConfigOperationType.SUBTRACT):
        before = values.get(name, rules.list_default(resource, name))
        values[name] = _changed_list(operation, before)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation.operation}")


def _changed_list(operation: ConfigOperation, before: str | None) -> str:
    verb = "APPEND" if operation.operation == ConfigOperationType.APPEND else "SUBTRACT"
    if before is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {verb} to key {operation.name} because its type is not LIST.",
        )
    items = [item for item in before.split(",") if item]
    values = _not_null(operation.name, operation.value).split(",")
    if operation.operation == ConfigOperationType.APPEND:
        items += [item for item in values if item not in items]
    else:
        items = [item for item in items if item not in values]
    return ",".join(items)


def _not_null(name: str, value: str | None) -> str:
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
    return value
