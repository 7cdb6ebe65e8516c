"""The states of a mirrored partition, and orders to mirrors that only read them from `__barnabas_mirror`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from barnabas.client.mirrors.store import CONTROL, MirrorStore

ALL = "*"


class State(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    FAILED = "FAILED"
    PROMOTING = "PROMOTING"
    STOPPED = "STOPPED"


async def order(store: MirrorStore, topics: Iterable[str], state: State) -> None:
    """PAUSED, ACTIVE or STOPPED, for the mirror that reads it: at the latest a second later."""
    await store.put({(CONTROL, topic): state.value for topic in topics})
