"""Limit on the producer states of all partitions of a broker (barnabas.producer.ids.max).

Each producer id takes about 500 bytes in each partition it writes to, and clients may use any number of ids. Above the
limit, the partitions with the most producers drop those that have been idle longest. As after
`producer.id.expiration.ms`, the next batch of such a producer is accepted with any sequence; only a duplicate of that
batch is not detected.

Only additions are counted, so that appends cost nothing and removals need no call. When that upper estimate reaches
the limit, the producers are counted exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.log.producers import ProducerStates

SPARE_PART = 20  # 1/20 of the limit is freed in addition, so that exact counts are rare


class ProducerBudget:
    def __init__(self, limit: int, states: Callable[[], Iterable[ProducerStates]]) -> None:
        self.limit = limit
        self.forgotten = 0
        self._states = states
        self._at_most = 0

    def watch(self, states: ProducerStates) -> None:
        """Count the producers of a partition, including those it has already."""
        self._at_most += len(states)
        states.on_new = self._added

    def count(self) -> int:
        return sum(map(len, self._states()))

    def _added(self) -> None:
        self._at_most += 1
        if self._at_most > self.limit:
            self._make_room()

    def _make_room(self) -> None:
        """Drop idle producers of the largest partitions until 1/SPARE_PART of the limit is free."""
        spare = max(self.limit // SPARE_PART, 1)
        surplus = self.count() + 1 + spare - self.limit
        for states in sorted(self._states(), key=len, reverse=True) if surplus > 0 else ():
            before = len(states)
            states.forget_oldest(min(surplus, max(before // 2, 1)))
            dropped = before - len(states)
            self.forgotten += dropped
            surplus -= dropped
            if surplus <= 0:
                break
        # Producers with open transactions cannot be dropped; if all have one, count again after some more additions.
        self._at_most = min(self.count() + 1, self.limit - spare)
