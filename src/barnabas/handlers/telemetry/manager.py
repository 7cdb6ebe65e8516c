"""Clients that push metrics: what each is asked for, when it may push, and what is refused.

What Kafka calls ClientMetricsManager and ClientMetricsInstance. Unlike Kafka, which needs a plugin that receives the
metrics, a broker always shows them at `/metrics`. It asks for cumulative sums, because Prometheus wants those.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from barnabas.common.clock import Clock
from barnabas.cluster.image import Resource, ResourceType
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.metrics.registry import Computed
from barnabas.records.compression import Codec, CompressionError, decompress
from barnabas.handlers.telemetry.otlp import MalformedError, Point, points
from barnabas.handlers.telemetry.series import Labels, Series
from barnabas.handlers.telemetry.subscriptions import Attributes, Subscription, Wanted, wanted_of
from barnabas.common.types import ZERO_UUID, Uuid, new_uuid, uuid_to_text

SHORTEST_LIFE = 60.0  # seconds that a client is remembered after its last request, if its interval is short
INTERVALS_KEPT = 3

ConfigsOfResources = Mapping[Resource, Mapping[str, str]]


class TelemetryLimits(NamedTuple):
    push_bytes: int  # telemetry.max.bytes
    decompressed_bytes: int
    clients: int
    series: int


class Push(NamedTuple):
    subscription_id: int
    is_terminating: bool
    codec: int
    metrics: memoryview


@dataclass(slots=True)
class ClientInstance:
    """What is known of one client. It is made again when subscriptions change."""

    id: Uuid
    attributes: Attributes
    wanted: Wanted
    version: int
    """Of the subscriptions that `wanted` was made from."""
    expires: float = inf
    last_get: float = -inf
    last_push: float = -inf
    is_terminating: bool = False
    must_ask_again: bool = False
    subscription_id: int = field(init=False)

    def __post_init__(self) -> None:
        self.subscription_id = self.wanted.subscription_id(self.id)

    @property
    def interval(self) -> float:
        return self.wanted.interval_ms / 1000

    def may_get(self, now: float) -> bool:
        """Once in an interval, and at once when an error tells a client to ask again."""
        if now - max(self.last_get, self.last_push) < self.interval and not self.must_ask_again:
            return False
        self.last_get, self.must_ask_again = now, False
        return True

    def may_push(self, now: float) -> bool:
        """Once in an interval; the first time sooner, because clients do not all begin at the same moment."""
        if self.last_get <= self.last_push and now - self.last_push < self.interval:
            return False
        self.last_push = now
        return True


class ClientTelemetry:
    def __init__(self, clock: Clock, limits: TelemetryLimits) -> None:
        self._clock = clock
        self.limits = limits
        self.series = Series(limits.series)
        self.forgotten = 0  # clients, because there were too many
        self._configs: ConfigsOfResources = {}
        self._subscriptions: list[Subscription] = []
        self._version = 0
        self._clients: dict[Uuid, ClientInstance] = {}  # the one that was heard of last is at the end

    def __len__(self) -> int:
        return len(self._clients)

    def use(self, configs: ConfigsOfResources) -> None:
        """Take over what the cluster's metadata says; cheap if that has not changed."""
        if configs is self._configs:
            return
        self._configs = configs
        subscriptions = [
            Subscription.of(settings)
            for resource, settings in configs.items()
            if resource.type == ResourceType.CLIENT_METRICS and settings
        ]
        if subscriptions or self._subscriptions:
            self._subscriptions = subscriptions
            self._version += 1

    def knows(self, instance_id: Uuid) -> bool:
        return instance_id in self._clients

    def get(self, instance_id: Uuid, attributes: Attributes) -> ClientInstance:
        """What a client shall push; a new one gets an id."""
        instance_id = instance_id if instance_id != ZERO_UUID else new_uuid()
        client = self._client(instance_id, attributes)
        if not client.may_get(self._clock.monotonic()):
            raise _too_early(client)
        return client

    def push(self, instance_id: Uuid, attributes: Attributes, push: Push) -> Generator[None, None, None]:
        """Take over what a client pushes, in steps; KafkaError if it is refused."""
        if instance_id == ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client has no instance id: ask for one first")
        client = self._client(instance_id, attributes)
        self._check(client, push)
        if push.metrics:
            found = yield from _decoded(push, self.limits.decompressed_bytes)
            if instance_id in self._clients:
                self.series.keep(instance_id, _own_labels(client.attributes), found)

    def forget(self, instance_id: Uuid) -> None:
        """Its connection is closed, or nothing was heard of it for long."""
        if self._clients.pop(instance_id, None) is not None:
            self.series.forget(instance_id)

    def families(self) -> Iterator[Computed]:
        """What `/metrics` shows."""
        self._forget_old()
        yield from self.series.families()

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for instance_id in [client.id for client in self._clients.values() if client.expires < now]:
            self.forget(instance_id)

    def _client(self, instance_id: Uuid, attributes: Attributes) -> ClientInstance:
        client = self._clients.pop(instance_id, None)
        if client is None or client.version != self._version:
            named = attributes._replace(client_instance_id=uuid_to_text(instance_id))
            client = ClientInstance(instance_id, named, wanted_of(named, self._subscriptions), self._version)
        life = max(SHORTEST_LIFE, INTERVALS_KEPT * client.interval)
        client.expires = self._clock.monotonic() + life
        if len(self._clients) >= self.limits.clients:
            self.forget(next(iter(self._clients)))
            self.forgotten += 1
        self._clients[instance_id] = client
        return client

    def _check(self, client: ClientInstance, push: Push) -> None:
        was_terminating, client.is_terminating = client.is_terminating, push.is_terminating
        if was_terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client has said before that it ends")
        if not client.may_push(self._clock.monotonic()) and not push.is_terminating:
            raise _too_early(client)
        if push.subscription_id != client.subscription_id:
            client.must_ask_again = True
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "subscriptions have changed: ask for them again"
            )
        if push.codec not in tuple(Codec):
            client.must_ask_again = True
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression type {push.codec}"
            )
        if len(push.metrics) > self.limits.push_bytes:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"{len(push.metrics)} bytes are more than {self.limits.push_bytes} (telemetry.max.bytes)",
            )


def _decoded(push: Push, most_bytes: int) -> Generator[None, None, list[Point]]:
    try:
        data = decompress(push.codec, push.metrics, most_bytes)
        return (yield from points(memoryview(data)))
    except (CompressionError, MalformedError) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"these are no metrics of OpenTelemetry: {error}"
        ) from None


def _own_labels(client: Attributes) -> Labels:
    return ("client_id", client.client_id or ""), ("client_instance_id", client.client_instance_id)


def _too_early(client: ClientInstance) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"the client asks more often than every {client.wanted.interval_ms} ms (interval.ms of client-metrics)",
    )
