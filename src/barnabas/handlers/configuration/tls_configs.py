"""A change of TLS settings is refused when its key store cannot be used, as in Kafka.

Only of this broker: what lies on the disk of another one is seen there, when it takes the change over.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from barnabas.cluster.image import Resource, ResourceType
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.controller.configs import ConfigOperation, Operation, Results
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.needs import HasConfig, HasImage

_TLS = "ssl."


class Tls(Protocol):
    def check(self, config: BrokerConfig) -> Awaitable[None]:
        """Raises ConfigError if the key stores of these settings cannot be used."""
        ...


class Sockets(Protocol):
    @property
    def tls(self) -> Tls: ...


class HasTls(Protocol):
    @property
    def sockets(self) -> Sockets: ...


class TlsNeeds(HasConfig, HasImage, HasTls, Protocol):
    """What this needs of the broker."""


async def take_out_unusable(broker: TlsNeeds, wanted: dict[Resource, list[ConfigOperation]]) -> Results:
    """Remove our own change from `wanted` if it cannot be used, and return why."""
    own = Resource(ResourceType.BROKER, str(broker.node_id))
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
    """What would be in force; operations on lists, and what makes no sense, are left to the controller."""
    settings = dict(broker.image.configs.get(own, {}))
    for each in operations:
        if each.operation == Operation.SET and each.value is not None:
            settings[each.name] = each.value
        elif each.operation == Operation.DELETE:
            settings.pop(each.name, None)
    return broker.config.with_dynamic(settings, broker.config.cluster_wide)
