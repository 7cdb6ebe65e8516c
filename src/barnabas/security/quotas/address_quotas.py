"""Connections that one address may open in a second (KIP-612): `connection_creation_rate` of an ip, or of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.security.quotas.filters import DEFAULT, QuotaEntity
from barnabas.security.quotas.rates import SampledRate, Windows

VALUE_NAME = "connection_creation_rate"


class AddressQuotas:
    """Counts the connections of addresses that have a quota; those that were silent for all windows are forgotten."""

    def __init__(self, windows: Windows, monotonic: Callable[[], float], addresses: int = 10_000) -> None:
        self._windows = windows
        self._now = monotonic
        self._most = addresses
        self._bounds: dict[str, float] = {}
        self._rates: dict[str, SampledRate] = {}  # in the order in which they came

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
        """Count a connection: 0 when it may come, or else the seconds for which it is kept away, a window at most."""
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
            rate.record(-1, now)  # it is not let in
        return min(wait, self._windows.seconds)

    def _rate_of(self, address: str, now: float) -> SampledRate:
        rate = self._rates.get(address)
        if rate is None:
            if len(self._rates) >= self._most:
                self._make_room(now)
            rate = self._rates[address] = SampledRate(self._windows)
        return rate

    def _make_room(self, now: float) -> None:
        for address in [address for address, rate in self._rates.items() if rate.total(now) <= 0]:
            del self._rates[address]
        for address in list(self._rates)[: len(self._rates) - self._most + self._most // 10 + 1]:
            del self._rates[address]
