"""What a connection needs from the server that it belongs to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.server.limits import Limits
from barnabas.server.memory import MemoryPool
from barnabas.server.residency import Warmer

if TYPE_CHECKING:
    from barnabas.server.connection import Connection
    from barnabas.server.dispatch import Dispatcher


class Surroundings(Protocol):
    """All connections of a server share these."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    dispatcher: Dispatcher
    memory: MemoryPool
    warmer: Warmer
    receive_buffer: memoryview
    monotonic: Callable[[], float]
    closed: Counter[str]  # connections that the server has closed, by reason

    def forget(self, connection: Connection) -> None: ...
