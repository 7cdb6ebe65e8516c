"""How often somebody may try to log in: by name, and by address."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_FAILURES = 10
WINDOW_SECONDS = 300.0
MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class Attempts:
    """Counts failures. After too many within a window nobody with that name, and nobody from that address, may try."""

    most: int = MOST_FAILURES
    window: float = WINDOW_SECONDS
    now: Callable[[], float] = time.monotonic
    _failures: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def wait(self, name: str, address: str) -> float:
        """Seconds until another attempt is allowed; 0 if it is now."""
        return max(self._wait("name", name), self._wait("address", address))

    def failed(self, name: str, address: str) -> None:
        for key in (("name", name[:256]), ("address", address)):
            moments = [*self._recent(key), self.now()][-self.most :]
            self._failures.pop(key, None)
            self._failures[key] = moments
        while len(self._failures) > MOST_REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, name: str) -> None:
        """The name's failures are forgotten; the address's are not: it may try many names."""
        self._failures.pop(("name", name[:256]), None)

    def _recent(self, key: tuple[str, str]) -> list[float]:
        start = self.now() - self.window
        return [moment for moment in self._failures.get(key, ()) if moment > start]

    def _wait(self, kind: str, word: str) -> float:
        moments = self._recent((kind, word[:256]))
        return 0.0 if len(moments) < self.most else moments[0] + self.window - self.now()
