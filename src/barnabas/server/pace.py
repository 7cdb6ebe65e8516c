"""At most so many events per second (`max.connection.creation.rate`): whoever comes too early waits."""

from __future__ import annotations

from collections.abc import Callable


class Pace:
    """A bucket of one second's events that fills up with time."""

    def __init__(self, per_second: float, monotonic: Callable[[], float]) -> None:
        self.per_second = per_second
        self._now = monotonic
        self._left = max(per_second, 1.0)
        self._filled = monotonic()

    def delay(self) -> float:
        """Return 0 when an event may happen now, or the seconds after which to ask again."""
        now = self._now()
        self._left = min(self._left + (now - self._filled) * self.per_second, max(self.per_second, 1.0))
        self._filled = now
        if self._left < 1.0:
            return (1.0 - self._left) / self.per_second if self.per_second > 0 else 1.0
        return 0.0

    def take(self) -> None:
        """An event has happened."""
        self._left -= 1.0
