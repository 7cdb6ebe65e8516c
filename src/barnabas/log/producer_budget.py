"""How many producers all partitions of a broker may remember together (barnabas.producer.ids.max).

Each producer id takes about 500 bytes in each partition it writes to, and anybody may invent ids. Beyond the bound the
partitions with the most producers forget those that have been silent longest. To a producer that was forgotten nothing
happens, as after `producer.id.expiration.ms`: its next batch is accepted whatever its sequence, and only a batch that
it sends twice just then is not recognised.

Only additions are counted, so that appending costs nothing and whatever forgets producers need not tell. When the count
reaches the bound, the producers are counted in earnest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.log.producers import ProducerStates

SPARE_PART = 20  # one in so many is forgotten beyond what is needed, so that counting is rare


class ProducerBudget:
    def __init__(self, limit: int, states: Callable[[], Iterable[ProducerStates]]) -> None:
        self.limit = limit
        self.forgotten = 0
        self._states = states
        self._at_most = 0

    def watch(self, states: ProducerStates) -> None:
        """Count what a partition remembers from now on; what it brings along counts at once."""
        self._at_most += len(states)
        states.on_new = self._added

    def count(self) -> int:
        return sum(map(len, self._states()))

    def _added(self) -> None:
        self._at_most += 1
        if self._at_most > self.limit:
            self._make_room()

    def _make_room(self) -> None:
        """Forget the silent ones of the largest partitions until a part of the room is free again."""
        spare = max(self.limit // SPARE_PART, 1)
        surplus = self.count() + 1 + spare - self.limit
        for states in sorted(self._states(), key=len, reverse=True) if surplus > 0 else ():
            before = len(states)
            states.forget_oldest(min(surplus, max(before // 2, 1)))
            gone = before - len(states)
            self.forgotten += gone
            surplus -= gone
            if surplus <= 0:
                break
        # With open transactions everywhere there is nothing to forget: count again after some more.
        self._at_most = min(self.count() + 1, self.limit - spare)
