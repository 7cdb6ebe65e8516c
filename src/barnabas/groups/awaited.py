"""What groups wait for, and the keys of the deadlines until which they do."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Awaited(Enum):
    """What a deadline is about. Every type of group uses the same words."""

    INITIAL_DELAY = "more members of a new group"
    JOIN = "members to join"
    SYNC = "members to sync"
    HEARTBEAT = "a member's next sign of life"
    REVOCATION = "a member to give up what it no longer owns"


class Deadline(NamedTuple):
    awaited: Awaited
    group_id: str
    member_id: str = ""
