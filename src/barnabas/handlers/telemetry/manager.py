"""Clients that push metrics: subscriptions, push intervals and refusals.

Kafka's ClientMetricsManager and ClientMetricsInstance. Unlike Kafka, which needs a receiver plugin, a broker
always exposes the metrics at `/metrics`. It requests cumulative sums, which Prometheus needs.

A client chooses its instance id, so the rate is limited per connection (`TelemetryClient`), which has one instance at
a time. A Java client stops pushing for good after INVALID_REQUEST and INVALID_RECORD; it requests its
subscription again after UNKNOWN_SUBSCRIPTION_ID, and waits for an interval after THROTTLING_QUOTA_EXCEEDED
and TELEMETRY_TOO_LARGE.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from math import exp, inf
from time import thread_time
from typing import NamedTuple, TypeVar

from barnabas.cluster.image import ConfigResourceType, Resource
from barnabas.common.clock import Clock
from barnabas.common.cooperative import Steps
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, Uuid, new_uuid, uuid_to_text
from barnabas.handlers.telemetry.otlp import MalformedError, MetricPoint, PayloadTooLargeError, read_points
from barnabas.handlers.telemetry.series import Labels, Series
from barnabas.handlers.telemetry.subscriptions import (
    Attributes,
    ClientMetrics,
    MetricsSubscription,
    wanted_of,
)
from barnabas.metrics import Computed
from barnabas.records.compression import BeyondLimitError, Codec, CompressionError

# -- CPU budget ----------------------------------------------------------------------------------------
# A push of few bytes may decompress to many points. Its cost is known only afterwards, so the limit is on the CPU time
# spent, averaged over a minute. The budget is that of the broker. When it is spent, a principal may still push if it
# has used less than an equal share, so that one principal cannot use all of it.

AVERAGING_SECONDS = 60.0
NEGLIGIBLE = 0.001  # CPU seconds; a sharer below this is removed

R = TypeVar("R")


class CpuBudget:
    """CPU seconds of a broker, shared by principals (`sharer` names one)."""

    def __init__(self, percent: float, monotonic: Callable[[], float]) -> None:
        self.percent = percent
        self._now = monotonic
        self._then = monotonic()
        self._spent: dict[str, float] = {}

    def check(self, sharer: str) -> None:
        """Raise if the budget is spent and this sharer has used its share."""
        self._decay()
        allowed = self.percent / 100 * AVERAGING_SECONDS
        if sum(self._spent.values()) < allowed:
            return
        sharers = len(self._spent.keys() | {sharer})
        if self._spent.get(sharer, 0.0) >= allowed / sharers:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"pushed metrics of {sharer} take too much CPU time (barnabas.telemetry.cpu.percent)",
            )

    def charge(self, sharer: str, seconds: float) -> None:
        self._decay()
        self._spent[sharer] = self._spent.get(sharer, 0.0) + seconds

    def charged(self, sharer: str, steps: Steps[R]) -> Generator[None, None, R]:
        """Run the steps, and charge their CPU time."""
        while True:
            began = thread_time()
            try:
                next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                self.charge(sharer, thread_time() - began)
            yield

    def _decay(self) -> None:
        now = self._now()
        if now - self._then < AVERAGING_SECONDS / 100:
            return
        kept = exp((self._then - now) / AVERAGING_SECONDS)
        self._then = now
        self._spent = {
            sharer: left for sharer, spent in self._spent.items() if (left := spent * kept) > NEGLIGIBLE
        }


MIN_LIFE = 60.0  # minimum seconds for which a client is kept after its last request
INTERVALS_KEPT = 3

ConfigsOfResources = Mapping[Resource, Mapping[str, str]]


class TelemetryLimits(NamedTuple):
    push_bytes: int  # telemetry.max.bytes
    decompressed_bytes: int
    points: int
    clients: int
    series: int
    cpu_percent: float


class Push(NamedTuple):
    subscription_id: int
    is_terminating: bool
    codec: int
    metrics: memoryview


@dataclass(slots=True, eq=False)
class TelemetryClient:
    """One connection: its client, and when it may get subscriptions and push."""

    instance_id: Uuid = ZERO_UUID
    version: int = -1
    """Version of the subscriptions. A client may get and push at once when they have changed."""
    last_get: float = -inf
    last_push: float = -inf
    must_ask_again: bool = False
    has_terminated: bool = False

    def follow(self, version: int) -> None:
        if version != self.version:
            self.version, self.last_get, self.last_push = version, -inf, -inf

    def may_get(self, now: float, interval: float) -> bool:
        """Once per interval, and at once after an error that makes the client request its subscription again."""
        if now - max(self.last_get, self.last_push) < interval and not self.must_ask_again:
            return False
        self.last_get, self.must_ask_again = now, False
        return True

    def may_push(self, now: float, interval: float, *, is_terminating: bool) -> bool:
        """Once per interval; earlier the first time, so that clients spread out, and once when a client
        terminates.
        """
        is_early = self.last_get <= self.last_push and now - self.last_push < interval
        if is_early and (not is_terminating or self.has_terminated):
            return False
        self.last_push = now
        self.has_terminated = self.has_terminated or is_terminating
        return True


@dataclass(slots=True)
class ClientInstance:
    """State of one client. It is created again when subscriptions change."""

    id: Uuid
    attributes: Attributes
    wanted: ClientMetrics
    version: int
    """Version of the subscriptions that `wanted` was made from."""
    sender: TelemetryClient
    expires: float = inf
    is_terminating: bool = False
    subscription_id: int = field(init=False)

    def __post_init__(self) -> None:
        self.subscription_id = self.wanted.subscription_id(self.id)

    @property
    def interval(self) -> float:
        return self.wanted.interval_ms / 1000


class ClientTelemetry:
    def __init__(self, clock: Clock, limits: TelemetryLimits) -> None:
        self._clock = clock
        self.limits = limits
        self.series = Series(limits.series)
        self.cpu = CpuBudget(limits.cpu_percent, clock.monotonic)
        self.forgotten = 0  # clients evicted because of the limit
        self.senders: dict[object, TelemetryClient] = {}  # by connection
        self._configs: ConfigsOfResources = {}
        self._subscriptions: list[MetricsSubscription] = []
        self._version = 0
        self._clients: dict[Uuid, ClientInstance] = {}  # the most recently active one is last

    def __len__(self) -> int:
        return len(self._clients)

    def use(self, configs: ConfigsOfResources) -> None:
        """Apply the subscriptions in the cluster's metadata; cheap if they are unchanged."""
        if configs is self._configs:
            return
        self._configs = configs
        subscriptions = [
            MetricsSubscription.of(settings)
            for resource, settings in configs.items()
            if resource.type == ConfigResourceType.CLIENT_METRICS and settings
        ]
        if subscriptions or self._subscriptions:
            self._subscriptions = subscriptions
            self._version += 1

    def get(self, sender: TelemetryClient, instance_id: Uuid, attributes: Attributes) -> ClientInstance:
        """Return the subscription of a client; a new client gets an id. As in Kafka a new one is never too
        early, but its first push is not earlier than its connection allows.
        """
        is_new = instance_id == ZERO_UUID
        client = self._client(sender, new_uuid() if is_new else instance_id, attributes)
        if not sender.may_get(self._clock.monotonic(), client.interval) and not is_new:
            raise _too_early(client)
        return client

    def admit(
        self, sender: TelemetryClient, sharer: str, instance_id: Uuid, attributes: Attributes, push: Push
    ) -> ClientInstance:
        """Return the client of a push; raise KafkaError if it is refused. Nothing was decompressed yet."""
        if instance_id == ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the client has no instance id: request a subscription first"
            )
        client = self._client(sender, instance_id, attributes)
        self._check(client, push)
        if push.metrics:
            self.cpu.check(sharer)
        return client

    def keep(self, client: ClientInstance, data: memoryview) -> Steps[None]:
        """Store the decompressed metrics of a push, in steps; raise KafkaError if they are refused."""
        own = _own_labels(client.attributes)

        def take(point: MetricPoint) -> None:
            if client.id in self._clients:  # its connection may have been closed meanwhile
                self.series.keep(client.id, own, point)

        try:
            yield from read_points(data, self.limits.points, take)
        except MalformedError as error:
            raise _no_metrics(error) from None
        except PayloadTooLargeError as error:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, str(error)) from None

    def disconnect(self, connection: object) -> None:
        """Remove a connection and its client, unless that uses another connection by now."""
        sender = self.senders.pop(connection, None)
        if sender is not None:
            self._release(sender)

    def _release(self, sender: TelemetryClient) -> None:
        client = self._clients.get(sender.instance_id)
        if client is not None and client.sender is sender:
            self.forget(client.id)

    def forget(self, instance_id: Uuid) -> None:
        """Remove a client that has disconnected or been inactive for long."""
        if self._clients.pop(instance_id, None) is not None:
            self.series.forget(instance_id)

    def families(self) -> Iterator[Computed]:
        """Metrics for the `/metrics` page."""
        self._forget_old()
        yield from self.series.families()

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for instance_id in [client.id for client in self._clients.values() if client.expires < now]:
            self.forget(instance_id)

    def _client(self, sender: TelemetryClient, instance_id: Uuid, attributes: Attributes) -> ClientInstance:
        sender.follow(self._version)
        if sender.instance_id != instance_id:
            self._release(sender)
            sender.instance_id = instance_id
        client = self._clients.pop(instance_id, None)
        if client is None or client.version != self._version:
            named = attributes._replace(client_instance_id=uuid_to_text(instance_id))
            wanted = wanted_of(named, self._subscriptions)
            client = ClientInstance(instance_id, named, wanted, self._version, sender)
        client.sender = sender
        life = max(MIN_LIFE, INTERVALS_KEPT * client.interval)
        client.expires = self._clock.monotonic() + life
        if len(self._clients) >= self.limits.clients:
            self.forget(next(iter(self._clients)))
            self.forgotten += 1
        self._clients[instance_id] = client
        return client

    def _check(self, client: ClientInstance, push: Push) -> None:
        sender = client.sender
        was_terminating, client.is_terminating = client.is_terminating, push.is_terminating
        if was_terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client has already terminated")
        if not client.wanted.metrics or push.subscription_id != client.subscription_id:
            sender.must_ask_again = True
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "subscriptions have changed: request them again"
            )
        now = self._clock.monotonic()
        if not sender.may_push(now, client.interval, is_terminating=push.is_terminating):
            raise _too_early(client)
        if push.codec not in tuple(Codec):
            sender.must_ask_again = True
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type {push.codec}")
        if len(push.metrics) > self.limits.push_bytes:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"{len(push.metrics)} bytes exceed {self.limits.push_bytes} (telemetry.max.bytes)",
            )


def refusal(error: CompressionError) -> KafkaError:
    """Return the error of a push that cannot be decompressed."""
    if isinstance(error, BeyondLimitError):
        text = f"{error} (barnabas.telemetry.max.decompressed.bytes)"
        return KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, text)
    return _no_metrics(error)


def _no_metrics(error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"not metrics in OpenTelemetry's format: {error}")


def _own_labels(client: Attributes) -> Labels:
    return ("client_id", client.client_id or ""), ("client_instance_id", client.client_instance_id)


def _too_early(client: ClientInstance) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"the client sends requests more often than every {client.wanted.interval_ms} ms "
        "(interval.ms of client-metrics)",
    )
