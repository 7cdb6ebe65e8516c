"""What was taken from senders who will not send it again, until the broker is known to have it.

Each transaction has a number, and the number is a position: it is stored in the transaction itself. After a failure the
stored number tells which of the transactions that were on their way have arrived; the others go again. So a broker that
dies in the middle of a commit loses nothing and doubles nothing. A process that dies takes its outbox with it.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from typing import Generic, TypeVar

Parcel = TypeVar("Parcel")

NUMBER = "transaction"
"""The key of the position."""


class Outbox(Generic[Parcel]):
    def __init__(self) -> None:
        self._run = secrets.token_hex(8)  # numbers of another process say nothing about ours
        self._last = 0
        self._sent: deque[tuple[int, Parcel]] = deque()
        self._again: deque[Parcel] = deque()

    @property
    def unsettled(self) -> list[Parcel]:
        return [*(parcel for _, parcel in self._sent), *self._again]

    def begin(self, positions: Mapping[str, bytes]) -> list[Parcel]:
        """After a failure: those that have arrived all the same."""
        run, _, number = positions.get(NUMBER, b"").decode().partition(":")
        reached = int(number) if run == self._run else 0
        arrived = [parcel for sent, parcel in self._sent if sent <= reached]
        self._again.extendleft(parcel for sent, parcel in reversed(self._sent) if sent > reached)
        self._sent.clear()
        return arrived

    def send(self, parcel: Parcel) -> tuple[int, dict[str, bytes]]:
        """The number of its transaction, and the position to store with it."""
        self._last += 1
        self._sent.append((self._last, parcel))
        return self._last, {NUMBER: f"{self._run}:{self._last}".encode()}

    def again(self) -> Parcel | None:
        """The next that was sent and has not arrived."""
        return self._again.popleft() if self._again else None

    def arrived(self, number: int) -> list[Parcel]:
        """The transaction is committed, and with it all before."""
        arrived = []
        while self._sent and self._sent[0][0] <= number:
            arrived.append(self._sent.popleft()[1])
        return arrived
