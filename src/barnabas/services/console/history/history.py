"""Time series in one SQLite file that survives a restart and a kill -9.

    history = History(path)
    await history.open()
    await history.record(now_ms, {"cluster/in": 1200.0, "group/g/lag": 17.0})
    curve = await history.read("cluster/in", since_ms, until_ms, points=360)

Names: cluster/in, cluster/out, cluster/lag; topic/{t}/in, topic/{t}/out, topic/{t}/bytes; group/{g}/lag,
group/{g}/lag_seconds, group/{g}/{topic}/lag; broker/{id}/... A single thread accesses the database.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from barnabas.common.safe_logging import safe_logger
from barnabas.common.threads import ThreadBackground
from barnabas.services.console.history.curve import Curve
from barnabas.services.console.history.store import IN_MEMORY, HistoryStore

logger = safe_logger(__name__)

T = TypeVar("T")

OWNER_ONLY = 0o700  # the file contains names of topics and groups


class History:
    """Call all methods on the event loop that called `open`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: ThreadBackground | None = None
        self._store: HistoryStore | None = None

    async def open(self) -> None:
        """Open or create the file. A damaged file is renamed, so that the console can start."""
        self._thread = ThreadBackground(asyncio.get_running_loop(), 1, "history")
        self._store = await self._thread.call(lambda: _open(self._path))

    async def record(self, ms: int, values: Mapping[str, float]) -> None:
        """Record one tick. Series missing in `values` have a gap there."""
        await self._call(lambda store: store.record(ms, values))

    async def read(self, series: str, since_ms: int, until_ms: int, points: int = 360) -> Curve:
        return (await self.read_many([series], since_ms, until_ms, points))[series]

    async def read_many(
        self, series: Iterable[str], since_ms: int, until_ms: int, points: int = 360
    ) -> dict[str, Curve]:
        """Curves of several series over the same steps, about as fast as one. Empty curves if the disk fails."""
        wanted = list(series)
        try:
            return await self._call(lambda store: store.read(wanted, since_ms, until_ms, points))
        except sqlite3.Error as error:
            logger.warning(
                "The history %s cannot be read (%s): pages are shown without it.", self._path, error
            )
            return dict.fromkeys(wanted, Curve([], []))

    async def names(self, prefix: str = "") -> list[str]:
        """Names of recorded series."""
        return await self._call(lambda store: store.names(prefix))

    async def close(self) -> None:
        if self._thread is not None:
            await self._call(HistoryStore.close)
            self._thread.close()
            self._thread = self._store = None

    async def _call(self, work: Callable[[HistoryStore], T]) -> T:
        store, thread = self._store, self._thread
        if store is None or thread is None:
            raise RuntimeError(f"the history {self._path} is not open")
        return await thread.call(lambda: work(store))


def _open(path: Path) -> HistoryStore:
    try:
        path.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        return HistoryStore(path)
    except (OSError, sqlite3.OperationalError) as error:
        logger.warning(
            "The history %s cannot be written (%s): curves will not survive a restart.", path, error
        )
        return HistoryStore(IN_MEMORY)
    except sqlite3.DatabaseError as error:
        aside = path.with_name(path.name + ".damaged")
        logger.warning("The history %s cannot be read (%s). It is now %s.", path, error, aside.name)
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return HistoryStore(path)
