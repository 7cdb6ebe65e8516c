"""What clients have used of their quotas, and how long they wait (Kafka's ClientQuotaManager and its kinds).

State is kept for clients that have a quota and have used something lately. Client ids are chosen by clients, so it is
bounded: a client that has been silent for longer than all windows has nothing that counts any more, and goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest
from typing import NamedTuple

from barnabas.security.context import RequestContext
from barnabas.security.quotas.filters import DEFAULT, QuotaEntity
from barnabas.security.quotas.interface import UNBOUNDED, Kind, Usage
from barnabas.security.quotas.rates import RecentAverage, SampledRate, TokenBucket, Windows

# -- Which quota a client has, by Kafka's order (KIP-55), and with whom it shares it -------------------


class Tags(NamedTuple):
    """Who shares what was used: Kafka's metric tags. Empty where it does not matter who."""

    user: str
    client_id: str


class Limit(NamedTuple):
    tags: Tags
    bound: float


def limit_of(quotas: Mapping[QuotaEntity, float], user: str, client_id: str) -> Limit | None:
    """The most specific quota; None without one.

    A quota of a user is shared by all its clients, one of a client id by all users. A default is for each for itself.
    Clients without a client id are one client, which has the default; Kafka leaves them without a quota.
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
    """How use is measured, with the setting that each value comes from."""

    windows: Windows = Windows()  # quota.window.num, quota.window.size.seconds
    controller_windows: Windows = (
        Windows()
    )  # controller.quota.window.num, controller.quota.window.size.seconds
    clients: int = 10_000  # barnabas.quotas.max.clients
    series: int = 1_000  # barnabas.quotas.max.series


class Sensor:
    """What the sharers of one quota have used of one kind."""

    __slots__ = ("_free", "bound", "bucket", "kind", "last_used", "rate", "tags", "throttle_time")

    def __init__(self, kind: Kind, tags: Tags, windows: Windows) -> None:
        self.kind = kind
        self.tags = tags
        self.bound = self._free = 0.0
        self.rate = SampledRate(windows)
        self.bucket = TokenBucket(windows)  # of mutations
        self.throttle_time = RecentAverage()
        self.last_used = 0.0

    def use_bound(self, bound: float) -> None:
        self.bound = bound
        self._free = bound * self.rate.windows.shortest

    @property
    def room(self) -> int:
        """What may be used at once by who has used nothing lately."""
        return int(self._free)

    def record(self, value: float, now: float) -> float:
        """Seconds to wait."""
        self.last_used = now
        rate = self.rate
        rate.record(value, now)
        # As most often: it is not above the bound over the shortest time that counts.
        return 0.0 if rate.recorded <= self._free else rate.wait(self.bound, now)

    def use(self, value: float, now: float) -> int:
        """Milliseconds to wait."""
        wait = self.record(value, now)
        return self.throttled(wait, now) if wait else 0

    def throttled(self, seconds: float, now: float) -> int:
        """Note a wait, and give it in milliseconds."""
        wait_ms = round(seconds * 1000)
        if wait_ms:
            self.throttle_time.record(wait_ms, now)
        return wait_ms


class ClientSensors(NamedTuple):
    """By kind; None where the client has no quota."""

    produce: Sensor | None
    fetch: Sensor | None
    request: Sensor | None
    mutation: Sensor | None


class ClientQuotas:
    """The quotas of all clients of a broker."""

    def __init__(self, limits: QuotaLimits, monotonic: Callable[[], float]) -> None:
        self.limits = limits
        self._now = monotonic
        self._by_kind: dict[Kind, dict[QuotaEntity, float]] = {}
        self.kinds: frozenset[Kind] = frozenset()
        self._clients: dict[tuple[str, str | None], ClientSensors] = {}
        self._sensors: dict[tuple[Kind, Tags], Sensor] = {}
        self.forgotten = 0  # sensors that made room for others

    def __len__(self) -> int:
        return len(self._sensors)

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> bool:
        """Take over the quotas of an image, at once. True if there are other kinds of them than before."""
        self._by_kind = {}
        for entity, values in quotas.items():
            for kind in Kind:
                bound = values.get(kind.value_name)
                if bound is not None and entity.ip is None:
                    self._by_kind.setdefault(kind, {})[entity] = bound
        self._clients.clear()
        before, self.kinds = self.kinds, frozenset(self._by_kind)
        for key in [key for key in self._sensors if key[0] not in self.kinds]:
            del self._sensors[key]
        return before != self.kinds

    # -- what requests use --------------------------------------------------------------------------

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
        now, requested = self._now(), 0
        if request is not None and seconds:
            requested = self._use_time(request, seconds, now)
        if sensor is None:
            return requested
        wait = sensor.record(size, now)
        if not wait and not requested:
            return 0
        # A batch larger than all windows may hold would never be sent otherwise: its consumer waits after it.
        if not requested and sensor.rate.total(now) <= size:
            return 0
        sensor.rate.record(-size, now)
        return max(sensor.throttled(wait, now), requested)

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
        tokens = sensor.bucket.refill(sensor.bound, now)
        if not is_strict or tokens >= 0:
            sensor.bucket.take(mutations)
            sensor.rate.record(mutations, now)
        if is_strict:
            return sensor.throttled(max(-tokens, 0.0) / sensor.bound, now)
        return sensor.throttled(max(-sensor.bucket.tokens, 0.0) / sensor.bound, now)

    def _use_time(self, sensor: Sensor, seconds: float, now: float) -> int:
        """The wait for time of the loop is at most one window, as in Kafka."""
        wait = sensor.record(seconds * PERCENT, now)
        return sensor.throttled(min(wait, self.limits.windows.seconds), now) if wait else 0

    # -- clients ------------------------------------------------------------------------------------

    def _sensors_of(self, context: RequestContext) -> ClientSensors:
        client = (context.principal.name, context.client_id)
        sensors = self._clients.get(client)
        if sensors is None:
            if len(self._clients) >= self.limits.clients:
                self._clients.clear()
            found = (self._sensor(kind, context.principal.name, context.client_id or "") for kind in Kind)
            sensors = self._clients[client] = ClientSensors(*found)
        return sensors

    def _sensor(self, kind: Kind, user: str, client_id: str) -> Sensor | None:
        limit = limit_of(self._by_kind.get(kind, {}), user, client_id)
        if limit is None:
            return None
        key = (kind, limit.tags)
        sensor = self._sensors.get(key)
        if sensor is None:
            self._make_room()
            windows = self.limits.controller_windows if kind is Kind.MUTATION else self.limits.windows
            sensor = self._sensors[key] = Sensor(kind, limit.tags, windows)
            sensor.last_used = self._now()
        sensor.use_bound(limit.bound)
        return sensor

    def _make_room(self) -> None:
        """Forget those that are silent; if none is, a tenth, of those that have been silent for longest."""
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
        """Forget clients that have used nothing for so long."""
        now = self._now()
        silent = [key for key, sensor in self._sensors.items() if now - sensor.last_used >= seconds]
        for key in silent:
            del self._sensors[key]
        if silent:
            self._clients.clear()

    def sensors(self) -> Iterator[Sensor]:
        return iter(self._sensors.values())


def _last_used(sensor: Sensor) -> float:
    return sensor.last_used
