"""Metrics of clients (KIP-714): GetTelemetrySubscriptions 0 and PushTelemetry 0."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.common.errors import KafkaError
from barnabas.handlers.needs import HasImage
from barnabas.network.requests.time_slices import at_once_or_in_turns
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from barnabas.records.compression import Codec
from barnabas.handlers.telemetry.manager import ClientTelemetry, Push
from barnabas.handlers.telemetry.subscriptions import Attributes

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Request

ACCEPTED_CODECS = [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]  # the best first


class TelemetryNeeds(HasImage, Protocol):
    """What these APIs need of the broker."""

    @property
    def telemetry(self) -> ClientTelemetry: ...


def get_telemetry_subscriptions(
    broker: TelemetryNeeds, request: Request, message: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    telemetry = broker.telemetry
    telemetry.use(broker.image.configs)
    is_known = telemetry.knows(message.client_instance_id)
    try:
        client = telemetry.get(message.client_instance_id, _attributes(request))
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    instance_id = client.id
    if not is_known:
        request.connection.when_closed(lambda: telemetry.forget(instance_id))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=client.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
        push_interval_ms=client.wanted.interval_ms,
        telemetry_max_bytes=telemetry.limits.push_bytes,
        requested_metrics=list(client.wanted.metrics),
    )


def push_telemetry(
    broker: TelemetryNeeds, request: Request, message: PushTelemetryRequest
) -> PushTelemetryResponse | Coroutine[Any, Any, PushTelemetryResponse]:
    broker.telemetry.use(broker.image.configs)
    return at_once_or_in_turns(request, _push(broker.telemetry, request, message))


def _push(
    telemetry: ClientTelemetry, request: Request, message: PushTelemetryRequest
) -> Generator[None, None, PushTelemetryResponse]:
    # A copy: the bytes of a request are gone after its first step.
    metrics = memoryview(bytes(message.metrics))
    push = Push(message.subscription_id, message.terminating, message.compression_type, metrics)
    try:
        yield from telemetry.push(message.client_instance_id, _attributes(request), push)
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()


def _attributes(request: Request) -> Attributes:
    context = request.context
    host, port = request.connection.peer[:2]
    return Attributes("", context.client_id, context.software_name, context.software_version, host, str(port))
