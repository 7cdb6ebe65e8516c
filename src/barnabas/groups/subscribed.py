"""What the members of one group subscribe to, kept up to date member by member.

A group may have a thousand members with thousands of topics each, and every join asks for all topics of the group and
for what it weighs. So topics are counted, not collected; and members with the same subscription share one set of names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView

from barnabas.groups.ledger import NAME_BYTES, text_bytes

Names = frozenset[str]
NO_NAMES: Names = frozenset()


class Subscriptions:
    def __init__(self) -> None:
        self._subscribers: Counter[str] = Counter()
        """How many members subscribe to each topic."""
        self._members: Counter[Names] = Counter()
        """How many members have each set of names."""
        self._shared: dict[Names, Names] = {}
        self.size = 0
        """The memory that the sets take."""
        self.names = 0
        """In all sets together: what it costs to look at each of them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subscriptions) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def topics(self) -> KeysView[str]:
        return self._subscribers.keys()

    @property
    def sets(self) -> KeysView[Names]:
        """Each that is different."""
        return self._members.keys()

    def share(self, names: Iterable[str]) -> Names:
        """The set that other members have, if there is one with these names."""
        made = frozenset(names)
        return self._shared.get(made, made)

    def replace(self, before: Names, after: Names) -> None:
        if before is after:
            return
        self._add(after)
        self._remove(before)
        self._subscribers.update(after - before)
        for name in before - after:
            self._subscribers[name] -= 1
            if not self._subscribers[name]:
                del self._subscribers[name]

    def _add(self, names: Names) -> None:
        if not names:
            return
        self._members[names] += 1
        if self._members[names] == 1:
            self._shared[names] = names
            self.size += text_bytes(names) + NAME_BYTES * len(names)
            self.names += len(names)

    def _remove(self, names: Names) -> None:
        if not names:
            return
        self._members[names] -= 1
        if not self._members[names]:
            del self._members[names], self._shared[names]
            self.size -= text_bytes(names) + NAME_BYTES * len(names)
            self.names -= len(names)

    def topics_without(self, gone: Iterable[Names], joined: Names = NO_NAMES) -> set[str]:
        """All topics once members with these names have gone, and one has joined."""
        leaving: Counter[str] = Counter()
        for names in gone:
            leaving.update(names)
        topics = set(self._subscribers)
        topics.difference_update(name for name, count in leaving.items() if self._subscribers[name] <= count)
        return topics | joined
