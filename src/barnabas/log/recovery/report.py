"""How a broker stopped, and what the recovery of a log did about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Stop(Enum):
    """How the broker stopped the last time."""

    CLEAN = "clean"
    KILLED = "killed"
    CRASHED = "crashed"


@dataclass(slots=True)
class RecoveryReport:
    """What recovery did to one log."""

    scanned_bytes: int = 0
    cut_bytes: int = 0
    cut_batches: int = 0  # those that could still be told apart
    cut_reason: str = ""
