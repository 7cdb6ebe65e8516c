"""ApiVersions: the supported APIs, which are exactly the table of handlers.

Versions 0 to 5 are supported. Since version 3 the client names its software; an invalid name is
INVALID_REQUEST. Version 3 omits features whose minimum is 0, which older clients could not read (KIP-584). In
version 5 a client names the broker it expects: if that is another one, it must bootstrap again (KIP-1242).
The dispatcher answers unsupported versions, in version 0 and with UNSUPPORTED_VERSION (KIP-511). Clients that
authenticate send it once before, and not during the exchange (`security/authn/sasl/login`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.handlers.needs import HasFeatures, HasImage
from barnabas.handlers.security.sasl import SaslNeeds, out_of_order
from barnabas.protocol.messages.metadata import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from barnabas.security.authn.sasl import OutOfOrderError

if TYPE_CHECKING:
    from barnabas.network.requests import Dispatcher, Handler, Request, Result

# Kafka's check: letters and digits, with dashes and dots inside.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


class VersionsNeeds(HasFeatures, HasImage, SaslNeeds, Protocol):
    """Broker attributes used by ApiVersions."""

    @property
    def dispatcher(self) -> Dispatcher: ...
    @property
    def node_id(self) -> int: ...


def api_versions(
    broker: VersionsNeeds, request: Request, message: ApiVersionsRequest
) -> Result[ApiVersionsResponse]:
    names = (message.client_software_name, message.client_software_version)
    is_valid = request.version < 3 or all(map(_SOFTWARE.fullmatch, names))
    login = request.connection.login
    if login is not None:
        try:
            login.ask_versions(is_valid=is_valid)
        except OutOfOrderError as error:
            refusal = ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            return out_of_order(broker, request, error, refusal)
    if not is_valid:
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.version >= 3:
        request.connection.context = request.connection.context.using(*names)
    if not _is_meant(broker, message):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    return ApiVersionsResponse(
        api_keys=advertised_apis(broker.dispatcher.handlers.values(), request.context.is_privileged),
        supported_features=supported_features(broker.supported_features, request.version),
        finalized_features=finalized_features(broker.image.features),
        finalized_features_epoch=broker.image.offset,
    )


def _is_meant(broker: VersionsNeeds, message: ApiVersionsRequest) -> bool:
    """Return whether the client expects this broker: its address may have been reassigned."""
    is_our_cluster = message.cluster_id is None or message.cluster_id == broker.image.cluster_id
    return is_our_cluster and message.node_id in (-1, broker.node_id)


def advertised_apis(handlers: Iterable[Handler], to_brokers: bool) -> list[ApiVersion]:
    """List the APIs of a table, by number; broker-only APIs are listed on the inter-broker listener."""
    apis = []
    for handler in handlers:
        lowest = handler.min_version if handler.advertised_min is None else handler.advertised_min
        highest = handler.max_version
        if handler.brokers_only_since is not None and not to_brokers:
            highest = handler.brokers_only_since - 1
        if lowest <= highest:
            apis.append(ApiVersion(handler.request_class.api_key, lowest, highest))
    return sorted(apis, key=lambda api: api.api_key)


def supported_features(levels: Mapping[str, tuple[int, int]], version: int) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name, lowest, highest)
        for name, (lowest, highest) in sorted(levels.items())
        if version >= 4 or lowest > 0
    ]


def finalized_features(levels: Mapping[str, int]) -> list[FinalizedFeatureKey]:
    return [FinalizedFeatureKey(name, level, level) for name, level in sorted(levels.items()) if level > 0]
