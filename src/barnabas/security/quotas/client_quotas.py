"""Quota usage and throttle times of clients (Kafka's ClientQuotaManager and its subclasses).

State exists only for clients with a quota and recent usage. Clients choose their client ids, so the state is bounded:
clients that were idle for longer than all windows have no usage left to count and are evicted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest
from typing import NamedTuple

from barnabas.common.rates import TokenBucket
from barnabas.security.context import RequestContext
from barnabas.security.quotas.filters import DEFAULT, QuotaEntity
from barnabas.security.quotas.interface import UNBOUNDED, QuotaKind, Usage
from barnabas.security.quotas.rates import RecentAverage, SampledRate, Windows

# -- Quota precedence in Kafka's order (KIP-55), and the clients that share a quota --------------------


class Tags(NamedTuple):
    """Clients that share a quota: Kafka's metric tags. An empty field matches any value."""

    user: str
    client_id: str


class Limit(NamedTuple):
    tags: Tags
    bound: float


def limit_of(quotas: Mapping[QuotaEntity, float], user: str, client_id: str) -> Limit | None:
    """Return the most specific quota; None without one.

    All clients of a user share the user's quota, and all users of a client id share that of the client id. A default
    applies to each client separately. Clients without a client id share the default; in Kafka they have no quota.
    """
    for entity, tags in _levels(user, client_id):
        bound = quotas.get(entity)
        if bound is not None:
            return Limit(tags, bound)
    return None


def _levels(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Tags]]:
    both, of_user, of_client = Tags(user, client_id), Tags(user, ""), Tags("", client_id)
    yield QuotaEntity(user, client_id), both
    yield QuotaEntity(user, DEFAULT), both
    yield QuotaEntity(user), of_user
    yield QuotaEntity(DEFAULT, client_id), both
    yield QuotaEntity(DEFAULT, DEFAULT), both
    yield QuotaEntity(DEFAULT), of_user
    yield QuotaEntity(None, client_id), of_client
    yield QuotaEntity(None, DEFAULT), of_client


EXPIRY_SECONDS = 3600.0  # Kafka's InactiveSensorExpirationTimeSeconds
PERCENT = 100.0


class QuotaLimits(NamedTuple):
    """Windows and bounds of quota measurement, with the setting of each."""

    windows: Windows = Windows()  # quota.window.num, quota.window.size.seconds
    controller_windows: Windows = (
        Windows()
    )  # controller.quota.window.num, controller.quota.window.size.seconds
    clients: int = 10_000  # barnabas.quotas.max.clients
    series: int = 1_000  # barnabas.quotas.max.series


class Sensor:
    """Usage of one quota."""

    __slots__ = ("_free", "bound", "bucket", "kind", "last_used", "rate", "tags", "throttle_time")

    def __init__(
        self, kind: QuotaKind, tags: Tags, windows: Windows, bound: float, monotonic: Callable[[], float]
    ) -> None:
        self.kind = kind
        self.tags = tags
        self.rate = SampledRate(windows)
        self.bucket = TokenBucket(bound, windows.span, monotonic)  # of mutations
        self.use_bound(bound)
        self.throttle_time = RecentAverage()
        self.last_used = 0.0

    def use_bound(self, bound: float) -> None:
        self.bound = self.bucket.rate = bound
        self._free = bound * self.rate.windows.shortest

    @property
    def room(self) -> int:
        """Amount that an idle client may use at once."""
        return int(self._free)

    def record(self, value: float, now: float) -> float:
        """Record usage; return the seconds to throttle."""
        self.last_used = now
        rate = self.rate
        rate.record(value, now)
        # Common case: below the bound even over the shortest period that counts.
        return 0.0 if rate.recorded <= self._free else rate.wait(self.bound, now)

    def use(self, value: float, now: float) -> int:
        """Record usage; return the milliseconds to throttle."""
        wait = self.record(value, now)
        return self.throttled(wait, now) if wait else 0

    def throttled(self, seconds: float, now: float) -> int:
        """Record a throttle time and return it in milliseconds."""
        wait_ms = round(seconds * 1000)
        if wait_ms:
            self.throttle_time.record(wait_ms, now)
        return wait_ms


class ClientSensors(NamedTuple):
    """Sensors of a client by kind; None where it has no quota."""

    produce: Sensor | None
    fetch: Sensor | None
    request: Sensor | None
    mutation: Sensor | None


class ClientQuotas:
    """Quotas of all clients of a broker."""

    def __init__(self, limits: QuotaLimits, monotonic: Callable[[], float]) -> None:
        self.limits = limits
        self._now = monotonic
        self._by_kind: dict[QuotaKind, dict[QuotaEntity, float]] = {}
        self.kinds: frozenset[QuotaKind] = frozenset()
        self._clients: dict[tuple[str, str | None], ClientSensors] = {}
        self._sensors: dict[tuple[QuotaKind, Tags], Sensor] = {}
        self.forgotten = 0  # sensors evicted while still in use

    def __len__(self) -> int:
        return len(self._sensors)

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> bool:
        """Apply the quotas of a metadata image. Returns True if the set of quota kinds changed."""
        self._by_kind = {}
        for entity, values in quotas.items():
            for kind in QuotaKind:
                bound = values.get(kind.value_name)
                if bound is not None and entity.ip is None:
                    self._by_kind.setdefault(kind, {})[entity] = bound
        self._clients.clear()
        before, self.kinds = self.kinds, frozenset(self._by_kind)
        for key in [key for key in self._sensors if key[0] not in self.kinds]:
            del self._sensors[key]
        return before != self.kinds

    # -- charging requests --------------------------------------------------------------------------

    def charge(self, context: RequestContext, usage: Usage) -> int:
        produce, fetch, request, _ = self._sensors_of(context)
        produced, fetched, seconds = usage
        now, wait_ms = self._now(), 0
        if request is not None and seconds:
            wait_ms = self._use_time(request, seconds, now)
        if produced and produce is not None:
            wait_ms = max(wait_ms, produce.use(produced, now))
        if fetched and fetch is not None:
            wait_ms = max(wait_ms, fetch.use(fetched, now))
        return wait_ms

    def charge_fetch(self, context: RequestContext, usage: Usage) -> int:
        _, sensor, request, _ = self._sensors_of(context)
        _, size, seconds = usage
        now, request_wait_ms = self._now(), 0
        if request is not None and seconds:
            request_wait_ms = self._use_time(request, seconds, now)
        if sensor is None:
            return request_wait_ms
        wait = sensor.record(size, now)
        if not wait and not request_wait_ms:
            return 0
        # Send a batch larger than the quota of all windows anyway, or it would never be sent; the next fetch waits.
        if not request_wait_ms and sensor.rate.total(now) <= size:
            return 0
        sensor.rate.record(-size, now)
        return max(sensor.throttled(wait, now), request_wait_ms)

    def fetch_room(self, context: RequestContext) -> int:
        sensor = self._sensors_of(context).fetch
        if sensor is None:
            return UNBOUNDED
        return min(sensor.room, UNBOUNDED)

    def admit(self, context: RequestContext, mutations: int, *, is_strict: bool) -> int:
        sensor, now = self._sensors_of(context).mutation, self._now()
        if sensor is None or not mutations:
            return 0
        sensor.last_used = now
        wait = sensor.bucket.wait()
        if not is_strict or not wait:
            sensor.bucket.take(mutations)
            sensor.rate.record(mutations, now)
        return sensor.throttled(wait if is_strict else sensor.bucket.wait(), now)

    def _use_time(self, sensor: Sensor, seconds: float, now: float) -> int:
        """Charge time on the event loop; throttles for at most one window, as in Kafka."""
        wait = sensor.record(seconds * PERCENT, now)
        return sensor.throttled(min(wait, self.limits.windows.seconds), now) if wait else 0

    # -- clients ------------------------------------------------------------------------------------

    def _sensors_of(self, context: RequestContext) -> ClientSensors:
        client = (context.principal.name, context.client_id)
        sensors = self._clients.get(client)
        if sensors is None:
            if len(self._clients) >= self.limits.clients:
                self._clients.clear()
            by_kind = (
                self._sensor(kind, context.principal.name, context.client_id or "") for kind in QuotaKind
            )
            sensors = self._clients[client] = ClientSensors(*by_kind)
        return sensors

    def _sensor(self, kind: QuotaKind, user: str, client_id: str) -> Sensor | None:
        limit = limit_of(self._by_kind.get(kind, {}), user, client_id)
        if limit is None:
            return None
        key = (kind, limit.tags)
        sensor = self._sensors.get(key)
        if sensor is None:
            self._evict()
            windows = self.limits.controller_windows if kind is QuotaKind.MUTATION else self.limits.windows
            sensor = self._sensors[key] = Sensor(kind, limit.tags, windows, limit.bound, self._now)
            sensor.last_used = self._now()
        sensor.use_bound(limit.bound)
        return sensor

    def _evict(self) -> None:
        """Evict idle sensors; if there are none, the least recently used tenth."""
        if len(self._sensors) < self.limits.clients:
            return
        span = max(self.limits.windows.span, self.limits.controller_windows.span)
        self.forget_silent(span)
        if len(self._sensors) >= self.limits.clients:
            oldest = nsmallest(len(self._sensors) // 10 + 1, self._sensors.values(), key=_last_used)
            for sensor in oldest:
                del self._sensors[sensor.kind, sensor.tags]
            self.forgotten += len(oldest)
        self._clients.clear()

    def forget_silent(self, seconds: float = EXPIRY_SECONDS) -> None:
        """Evict clients that were idle for this long."""
        now = self._now()
        idle = [key for key, sensor in self._sensors.items() if now - sensor.last_used >= seconds]
        for key in idle:
            del self._sensors[key]
        if idle:
            self._clients.clear()

    def sensors(self) -> Iterator[Sensor]:
        return iter(self._sensors.values())


def _last_used(sensor: Sensor) -> float:
    return sensor.last_used
