"""What a coordinator consists of: records, and the state that they build."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas.records.record import Header, Record


class CoordinatorRecord(NamedTuple):
    """One change of state, as it stands in the internal topic; without a value it is a tombstone."""

    key: bytes
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Producer(NamedTuple):
    """Whose transaction some records belong to."""

    producer_id: int
    producer_epoch: int


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
