"""Metrics of clients (KIP-714): GetTelemetrySubscriptions 0 and PushTelemetry 0."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.needs import HasImage
from barnabas.handlers.telemetry.manager import (
    ClientInstance,
    ClientTelemetry,
    Push,
    TelemetryClient,
    refusal,
)
from barnabas.handlers.telemetry.subscriptions import Attributes
from barnabas.network.requests import RequestTurn, Result
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from barnabas.records.compression import Codec, CompressionError
from barnabas.replication import Inspections
from barnabas.security import ANONYMOUS, RequestContext

if TYPE_CHECKING:
    from barnabas.network import Connection
    from barnabas.network.requests import Request

WAITING_PUSHES = 16  # of the largest size, in all
WAITING_PUSHES_OF_ONE = 4  # of one principal
ACCEPTED_CODECS = [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]  # in order of preference


class PushQueue:
    """Decompresses and reads one push at a time, and bounds the waiting bytes."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._turn = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def slot(self, sharer: str, size: int) -> AsyncIterator[None]:
        """Wait for earlier pushes; raise if too much is waiting already."""
        if self._is_full(sharer, size):
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                "too many pushes are waiting: retry after the push interval",
            )
        self._waiting[sharer] += size
        try:
            async with self._turn:
                yield
        finally:
            self._waiting[sharer] -= size
            if not self._waiting[sharer]:
                del self._waiting[sharer]

    def _is_full(self, sharer: str, size: int) -> bool:
        return (
            self._waiting[sharer] + size > WAITING_PUSHES_OF_ONE * self._largest
            or sum(self._waiting.values()) + size > WAITING_PUSHES * self._largest
        )


class TelemetryNeeds(HasImage, Protocol):
    """Broker attributes used by client telemetry."""

    @property
    def telemetry(self) -> ClientTelemetry: ...
    @property
    def inspections(self) -> Inspections: ...
    @property
    def push_queue(self) -> PushQueue: ...


def get_telemetry_subscriptions(
    broker: TelemetryNeeds, request: Request, message: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    telemetry = broker.telemetry
    telemetry.use(broker.image.configs)
    try:
        client = telemetry.get(
            _sender(telemetry, request.connection), message.client_instance_id, _attributes(request)
        )
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client.id,
        subscription_id=client.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
        push_interval_ms=client.wanted.interval_ms,
        telemetry_max_bytes=telemetry.limits.push_bytes,
        requested_metrics=list(client.wanted.metrics),
    )


def push_telemetry(
    broker: TelemetryNeeds, request: Request, message: PushTelemetryRequest
) -> Result[PushTelemetryResponse]:
    telemetry = broker.telemetry
    telemetry.use(broker.image.configs)
    # A copy: the receive buffer is reused after the first step.
    metrics = memoryview(bytes(message.metrics))
    push = Push(message.subscription_id, message.terminating, message.compression_type, metrics)
    sender, sharer = _sender(telemetry, request.connection), _sharer(request.context)
    try:
        client = telemetry.admit(sender, sharer, message.client_instance_id, _attributes(request), push)
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    return _keep(broker, request, client, push) if metrics else PushTelemetryResponse()


async def _keep(
    broker: TelemetryNeeds, request: Request, client: ClientInstance, push: Push
) -> PushTelemetryResponse:
    telemetry, size, sharer = broker.telemetry, len(push.metrics), _sharer(request.context)
    request.connection.hold_memory(size)
    try:
        async with broker.push_queue.slot(sharer, size):
            data = await _decompressed(broker, sharer, push)
            await RequestTurn().run(telemetry.cpu.charged(sharer, telemetry.keep(client, data)))
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    finally:
        request.connection.release_memory(size)
    return PushTelemetryResponse()


async def _decompressed(broker: TelemetryNeeds, sharer: str, push: Push) -> memoryview:
    telemetry = broker.telemetry
    try:
        data, seconds = await broker.inspections.unpack(
            push.codec, push.metrics, telemetry.limits.decompressed_bytes
        )
    except CompressionError as error:
        raise refusal(error) from None
    telemetry.cpu.charge(sharer, seconds)
    return memoryview(data)


def _sender(telemetry: ClientTelemetry, connection: Connection) -> TelemetryClient:
    sender = telemetry.senders.get(connection)
    if sender is None:
        sender = telemetry.senders[connection] = TelemetryClient()
        connection.when_closed(lambda: telemetry.disconnect(connection))
    return sender


def _sharer(context: RequestContext) -> str:
    """Return the sharer of CPU time: a principal, or an address where clients do not authenticate."""
    name = str(context.principal)
    return f"{name} at {context.host}" if context.principal == ANONYMOUS else name


def _attributes(request: Request) -> Attributes:
    context = request.context
    host, port = request.connection.peer[:2]
    return Attributes("", context.client_id, context.software_name, context.software_version, host, str(port))
