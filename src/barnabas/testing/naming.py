"""APIs and errors by the names that people write: `Produce`, `PRODUCE`, `produce`, or the number."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from barnabas.common.suggestions import closest

E = TypeVar("E", bound=IntEnum)


def member(kind: type[E], wanted: int | str) -> E:
    """The member of an enumeration that is meant; ValueError, with the nearest name, if there is none."""
    if not isinstance(wanted, str):
        return kind(wanted)
    names = {_plain(each.name): each for each in kind}
    found = names.get(_plain(wanted))
    if found is None:
        raise ValueError(f"there is no {kind.__name__} {wanted!r}{_suggestion(_plain(wanted), names)}")
    return found


def _plain(name: str) -> str:
    """Kafka writes LIST_OFFSETS, ListOffsets and even NotLeaderOrFollower for the same thing."""
    return name.replace("_", "").replace(" ", "").lower()


def _suggestion(name: str, names: dict[str, E]) -> str:
    match = closest(name, names)
    return f"; did you mean {names[match].name}?" if match is not None else ""
