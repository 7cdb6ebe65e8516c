"""Series of numbers over time, in one SQLite file that survives a restart and a kill -9.

    history = await History.open(path)
    await history.record(now_ms, {"cluster/in": 1200.0, "group/g/lag": 17.0})
    curve = await history.read("cluster/in", since_ms, until_ms, points=360)

Names: cluster/in, cluster/out, cluster/lag; topic/{t}/in, topic/{t}/out, topic/{t}/bytes; group/{g}/lag,
group/{g}/lag_seconds, group/{g}/{topic}/lag; broker/{id}/... All work is done by one thread.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from barnabas.console.history.curve import Curve
from barnabas.console.history.store import HistoryStore
from barnabas.threads import ThreadBackground

logger = logging.getLogger(__name__)


class History:
    def __init__(self, store: HistoryStore, thread: ThreadBackground) -> None:
        self._store = store
        self._thread = thread

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Opens or makes the file. One that is damaged is set aside: curves are no reason not to start."""
        thread = ThreadBackground(asyncio.get_running_loop(), 1, "history")
        return cls(await thread.call(lambda: _open(path)), thread)

    async def record(self, ms: int, values: Mapping[str, float]) -> None:
        """One tick. A series that is not in it has a gap there."""
        await self._thread.call(lambda: self._store.record(ms, values))

    async def read(self, series: str, since_ms: int, until_ms: int, points: int = 360) -> Curve:
        return (await self.read_many([series], since_ms, until_ms, points))[series]

    async def read_many(
        self, series: Iterable[str], since_ms: int, until_ms: int, points: int = 360
    ) -> dict[str, Curve]:
        """Curves of several series over the same steps; about as much work as one."""
        wanted = list(series)
        return await self._thread.call(lambda: self._store.read(wanted, since_ms, until_ms, points))

    async def names(self, prefix: str = "") -> list[str]:
        """The series that there are."""
        return await self._thread.call(lambda: self._store.names(prefix))

    async def close(self) -> None:
        with suppress(RuntimeError):
            await self._thread.call(self._store.close)
        self._thread.close()


def _open(path: Path) -> HistoryStore:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return HistoryStore(path)
    except sqlite3.DatabaseError as error:
        aside = path.with_name(path.name + ".damaged")
        logger.warning("The history %s cannot be read (%s). It is now %s.", path, error, aside.name)
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return HistoryStore(path)
