"""The steps of copying and expiring by name: tests and the simulator stop a writer at each of them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    CHOSEN = "U1"
    FIRST_PART = "U2"
    WHOLE = "U3"
    CAS_SENT = "U4"
    ANSWERED = "U5"
    NOTED = "U6"
    LOG_START_RAISED = "D1"
    LISTED_AS_GARBAGE = "D2"
    OBJECTS_DELETED = "D3"
    GARBAGE_COLLECTED = "D4"


At = Callable[[Step], None]
"""Called at each step; tests die there."""


def nowhere(_: Step) -> None:
    pass
