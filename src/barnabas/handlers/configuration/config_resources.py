"""Config resources, and the rules for the settings of each type."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sized

from barnabas.cluster import check_topic_name
from barnabas.cluster.image import ConfigResourceType, Resource
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config import validation
from barnabas.config.broker import CLUSTER_WIDE_ONLY, BrokerConfig
from barnabas.config.definitions import Scope
from barnabas.config.tiering_checks import becomes_compacted
from barnabas.controller.configs import ConfigRules
from barnabas.protocol.internal_topics import INTERNAL_TOPICS

MAX_SETTINGS = 1000
"""Per resource. A broker has about 500, including settings of Kafka that have no effect here."""


def check_number_of_settings(configs: Sized) -> None:
    """Refuse too many settings before reading them: some must be duplicates or unknown."""
    if len(configs) > MAX_SETTINGS:
        raise invalid_request(
            f"{len(configs)} settings of one resource, and none has more than {MAX_SETTINGS}: name each once."
        )


def check_resource(node_id: int, brokers: Container[int], resource: Resource) -> None:
    """Raise unless the resource can have configs: a broker's only for a known broker, loggers only for this
    broker.
    """
    kind, name = resource
    if kind == ConfigResourceType.TOPIC:
        require(name, "Default topic resources are not allowed.")
        check_topic_name(name)
    elif kind == ConfigResourceType.BROKER:
        _check_broker_id(node_id, brokers, name)
    elif kind == ConfigResourceType.BROKER_LOGGER:
        if number(name, "Node id") != node_id:
            raise invalid_request(f"Unexpected node id. Expected {node_id}, but received {name}")
    elif kind == ConfigResourceType.GROUP:
        require(name, "Default group resources are not allowed.")
    elif kind == ConfigResourceType.CLIENT_METRICS:
        require(name, "Subscription name can't be empty")
    else:
        raise invalid_request(f"Unknown resource type {kind}")


def _check_broker_id(node_id: int, brokers: Container[int], name: str) -> None:
    if name and number(name, "Node id") not in brokers:
        raise invalid_request(f"Unexpected broker id, expected {node_id}, but received {name}")


def rules(config: BrokerConfig, *, is_alone: bool) -> ConfigRules:
    """Rules that the controller applies to settings. On a single node, a cluster-wide default can be deleted,
    and its properties file applies again.
    """

    def check(resource: Resource, settings: Mapping[str, str]) -> None:
        if resource.type == ConfigResourceType.TOPIC:
            is_internal = resource.name in INTERNAL_TOPICS
            validation.check_topic_configs(settings, config, is_internal=is_internal)
        elif resource.type == ConfigResourceType.BROKER:
            validation.check_broker_configs(settings, per_broker=bool(resource.name))
        elif resource.type == ConfigResourceType.GROUP:
            validation.check_group_configs(settings, config)
        else:
            validation.check_client_metrics_configs(settings)

    return ConfigRules(
        check,
        lambda resource, name: validation.list_default(Scope(resource.type), name),
        frozenset() if is_alone else CLUSTER_WIDE_ONLY,
        config["barnabas.configs.max.resources"],
        lambda before, after: becomes_compacted(before, after, config),
    )


def require(name: str, otherwise: str) -> None:
    if not name:
        raise invalid_request(otherwise)


def number(text: str, word: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise invalid_request(f"{word} must be an integer, but it is: {text}") from None


def invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
