"""How far a connector is, as Spark writes it down; and how much the next micro-batch takes. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.connect.sources.postgres.slot import Peeked, System, lsn_text, parse_lsn

QUIET_BYTES = 16 << 20
"""Of the server's log without a change of ours: then the position moves on, so that the server need not keep it."""


NO_SYSTEM = System("", 0)


@dataclass(frozen=True)
class Position:
    """Everything before `lsn` was read. None: nothing yet, not even the tables."""

    lsn: int | None = None
    system: System = NO_SYSTEM

    def to_json(self) -> dict[str, Any]:
        if self.lsn is None:
            return {"lsn": None}
        return {"lsn": lsn_text(self.lsn), "system": self.system.identifier, "timeline": self.system.timeline}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Position:
        if value["lsn"] is None:
            return cls()
        return cls(parse_lsn(value["lsn"]), System(value["system"], value["timeline"]))


class End(NamedTuple):
    lsn: int
    is_empty: bool
    """No change of ours is before it."""


def next_end(
    start: int, flushed: int, most: int, peek: Callable[[int], Peeked], *, is_quiet: bool
) -> End | None:
    """Where the next micro-batch ends: behind a commit, or where the log ends if none of its changes are ours and it
    was quiet for long. None: nothing has come.

    A peek begins at the slot's position, which is one micro-batch behind `start`: if it shows nothing that is new, but
    was cut short, it is made longer.
    """
    while flushed > start:
        found = peek(most)
        if found.end is not None and found.end > start:
            return End(found.end, False)
        if found.messages < most:
            return End(flushed, True) if is_quiet or flushed - start >= QUIET_BYTES else None
        most *= 4
    return None
