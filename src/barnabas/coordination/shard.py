"""What a coordinator consists of: records, and the state that they build."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.records.record import Header, Record


class Producer(NamedTuple):
    """Whose transaction some records belong to."""

    producer_id: int
    producer_epoch: int


Effect = Callable[[int, Producer | None], None]


class CoordinatorRecord(NamedTuple):
    """One change of state, as it stands in the internal topic; without a value it is a tombstone.

    `effect` does what a replay of the record would do, given its offset and producer: it spares the
    hot path from decoding what it has just encoded.
    """

    key: bytes
    value: bytes | None
    headers: tuple[Header, ...] = ()
    effect: Effect | None = None


class Shard(Protocol):
    """The state that one partition of an internal topic holds."""

    def replay(self, record: Record, producer: Producer | None) -> None:
        """Take over one record. Those of a producer are pending until its transaction is complete."""
        ...

    def complete_transaction(self, producer: Producer, *, committed: bool) -> None: ...

    def loaded(self) -> None:
        """The whole log has been replayed: timers may start."""
        ...

    def unloaded(self) -> None:
        """Somebody else coordinates from now on: timers stop, nobody waits here any longer."""
        ...
