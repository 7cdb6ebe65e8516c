"""How often somebody may fail to log in before nobody is listened to for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

WINDOW_SECONDS = 300.0
MOST = {
    "both": 10,  # one name from one address
    "name": 50,  # from all addresses: somebody elsewhere must not lock a person out at once
    "address": 100,  # any names; a proxy is one address for all people behind it
}
MOST_REMEMBERED = 10_000
LONGEST_NAME = 256

Key = tuple[str, str, str]


@dataclass(slots=True)
class Attempts:
    """Counts the failures of a window of time."""

    window: float = WINDOW_SECONDS
    now: Callable[[], float] = time.monotonic
    _failures: dict[Key, list[float]] = field(default_factory=dict)

    def wait(self, name: str, address: str) -> float:
        """Seconds until another attempt is allowed; 0 if it is now. Without a name the address alone counts."""
        return max(self._wait(key) for key in _keys(name, address))

    def failed(self, name: str, address: str) -> None:
        for key in _keys(name, address):
            moments = [*self._recent(key), self.now()][-MOST[key[0]] :]
            self._failures.pop(key, None)
            self._failures[key] = moments
        while len(self._failures) > MOST_REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, name: str, address: str) -> None:
        """Forgotten is what this person did wrong before; the address may be trying other names."""
        self._failures.pop(_keys(name, address)[-1], None)

    def _recent(self, key: Key) -> list[float]:
        start = self.now() - self.window
        return [moment for moment in self._failures.get(key, ()) if moment > start]

    def _wait(self, key: Key) -> float:
        moments = self._recent(key)
        return 0.0 if len(moments) < MOST[key[0]] else moments[0] + self.window - self.now()


def _keys(name: str, address: str) -> list[Key]:
    named = name[:LONGEST_NAME]
    found: list[Key] = [("address", "", address)]
    return [*found, ("name", named, ""), ("both", named, address)] if named else found
