"""Validation of TLS configs: a change is refused when its key store is not usable, as in Kafka.

Only for this broker: another one checks the files on its disk when it applies the change.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from barnabas.cluster.image import ConfigResourceType, Resource
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.controller.configs import ConfigOperation, ConfigOperationType, Results
from barnabas.handlers.needs import HasConfig, HasImage

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
    """Remove this broker's change from `wanted` if it is not usable, and return the error."""
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
