"""Keep accepted data until its transaction is known to be committed. Its senders do not resend it.

Each transaction has a sequence number, which is stored as a position within the transaction. After a failure the stored
number shows which pending transactions were committed; the others are sent again. A broker failure during a commit
therefore causes neither loss nor duplicates. The outbox is in memory only: a crash of the agent loses it.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from typing import Generic, TypeVar

Parcel = TypeVar("Parcel")

NUMBER = "transaction"
"""Key of the stored position."""


class Outbox(Generic[Parcel]):
    def __init__(self) -> None:
        self._run = secrets.token_hex(8)  # sequence numbers of other processes are ignored
        self._last = 0
        self._sent: deque[tuple[int, Parcel]] = deque()
        self._again: deque[Parcel] = deque()

    @property
    def unsettled(self) -> list[Parcel]:
        return [*(parcel for _, parcel in self._sent), *self._again]

    def begin(self, positions: Mapping[str, bytes]) -> list[Parcel]:
        """Restart after a failure: queue uncommitted parcels for resending and return the committed ones."""
        run, _, number = positions.get(NUMBER, b"").decode().partition(":")
        reached = int(number) if run == self._run else 0
        arrived = [parcel for sent, parcel in self._sent if sent <= reached]
        self._again.extendleft(parcel for sent, parcel in reversed(self._sent) if sent > reached)
        self._sent.clear()
        return arrived

    def send(self, parcel: Parcel) -> tuple[int, dict[str, bytes]]:
        """Register a parcel as pending; return its transaction number and the position to store with it."""
        self._last += 1
        self._sent.append((self._last, parcel))
        return self._last, {NUMBER: f"{self._run}:{self._last}".encode()}

    def again(self) -> Parcel | None:
        """Return the next parcel to send again, or None."""
        return self._again.popleft() if self._again else None

    def arrived(self, number: int) -> list[Parcel]:
        """Remove and return all parcels up to the committed transaction `number`."""
        arrived = []
        while self._sent and self._sent[0][0] <= number:
            arrived.append(self._sent.popleft()[1])
        return arrived
