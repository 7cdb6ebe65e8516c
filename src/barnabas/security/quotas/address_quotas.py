"""Connection rate per address (KIP-612): `connection_creation_rate` of an ip, or the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.security.quotas.filters import DEFAULT, QuotaEntity
from barnabas.security.quotas.rates import SampledRate, Windows

VALUE_NAME = "connection_creation_rate"


class AddressQuotas:
    """Connection rates of addresses with a quota. Bounded: idle addresses are evicted first."""

    def __init__(self, windows: Windows, monotonic: Callable[[], float], addresses: int = 10_000) -> None:
        self._windows = windows
        self._now = monotonic
        self._max_addresses = addresses
        self._bounds: dict[str, float] = {}
        self._rates: dict[str, SampledRate] = {}  # in order of the first connection

    def __len__(self) -> int:
        return len(self._rates)

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._bounds = {
            entity.ip: values[VALUE_NAME]
            for entity, values in quotas.items()
            if entity.ip is not None and VALUE_NAME in values
        }
        if not self._bounds:
            self._rates.clear()

    def delay(self, address: str) -> float:
        """Count a connection; return 0 if it is admitted, or the seconds to delay it, at most one window."""
        if not self._bounds:
            return 0.0
        bound = self._bounds.get(address, self._bounds.get(DEFAULT))
        if bound is None:
            return 0.0
        now = self._now()
        rate = self._rate_of(address, now)
        rate.record(1, now)
        wait = rate.wait(bound, now)
        if wait:
            rate.record(-1, now)  # not admitted
        return min(wait, self._windows.seconds)

    def _rate_of(self, address: str, now: float) -> SampledRate:
        rate = self._rates.get(address)
        if rate is None:
            if len(self._rates) >= self._max_addresses:
                self._evict(now)
            rate = self._rates[address] = SampledRate(self._windows)
        return rate

    def _evict(self, now: float) -> None:
        for address in [address for address, rate in self._rates.items() if rate.total(now) <= 0]:
            del self._rates[address]
        for address in list(self._rates)[
            : len(self._rates) - self._max_addresses + self._max_addresses // 10 + 1
        ]:
            del self._rates[address]
