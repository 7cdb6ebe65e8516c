"""SQLite storage of the history. One row per tick holds all series, each at its slot of a float32 array.

Ticks are kept for two hours, minutes for a day, ten minutes for thirty days: 6,480 rows in total, or 260 MB with the
maximum number of series. A slot unused for thirty days is reassigned; values before `since` belong to the previous
series.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from barnabas.common.files import FILE_MODE
from barnabas.services.console.history.curve import Curve, even_curve

MAX_SERIES = 10_000
IN_MEMORY = ":memory:"
FLOAT = 4
MISSING = math.nan
HOUR_MS = 3_600_000


class HistoryLevel(NamedTuple):
    table: str
    step_ms: int
    keep_ms: int


LEVELS = (
    HistoryLevel("ticks", 10_000, 2 * HOUR_MS),
    HistoryLevel("minutes", 60_000, 24 * HOUR_MS),
    HistoryLevel("ten_minutes", 600_000, 30 * 24 * HOUR_MS),
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS series (slot INTEGER PRIMARY KEY, name TEXT UNIQUE, since INTEGER, used INTEGER);
CREATE TABLE IF NOT EXISTS ticks (ms INTEGER PRIMARY KEY, samples BLOB);
CREATE TABLE IF NOT EXISTS minutes (ms INTEGER PRIMARY KEY, samples BLOB);
CREATE TABLE IF NOT EXISTS ten_minutes (ms INTEGER PRIMARY KEY, samples BLOB);
"""


def make_private(path: Path) -> None:
    """Restrict access to the owner, as the file contains names of topics and groups. SQLite creates its WAL files with
    the mode of the database."""
    path.touch(mode=FILE_MODE)
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(FileNotFoundError):
            each.chmod(FILE_MODE)


class HistorySlot(NamedTuple):
    number: int
    since_ms: int


class HistoryStore:
    """Not thread-safe: call from one thread at a time."""

    def __init__(self, path: Path | str, most_series: int = MAX_SERIES) -> None:
        self._most_series = most_series
        if path != IN_MEMORY:
            make_private(Path(path))
        self._database = sqlite3.connect(path, check_same_thread=False)
        try:
            # A WAL survives a kill -9 without loss; a power failure may lose only the last ticks.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(SCHEMA)
            self._slots = self._named()
            newest = self._database.execute("SELECT max(ms) FROM ticks").fetchone()[0]
        except sqlite3.DatabaseError:
            self._database.close()
            raise
        self._newest: int = newest or 0
        self._marked_ms = 0

    def _named(self) -> dict[str, HistorySlot]:
        rows = self._database.execute("SELECT name, slot, since FROM series")
        return {name: HistorySlot(slot, since) for name, slot, since in rows}

    def record(self, ms: int, values: Mapping[str, float]) -> None:
        tick = LEVELS[0]
        at = ms - ms % tick.step_ms
        try:
            with self._database:
                self._name_new_series(values, at)
                self._mark_used(values, at)
                self._insert(tick, at, self._row(values))
                self._condense(at)
                for level in LEVELS:
                    self._database.execute(f"DELETE FROM {level.table} WHERE ms < ?", (at - level.keep_ms,))
        except sqlite3.Error:
            self._slots, self._marked_ms = self._named(), 0  # disk full: drop slots of new series
            raise
        self._newest = at

    def read(self, series: Sequence[str], since_ms: int, until_ms: int, points: int) -> dict[str, Curve]:
        step_ms = -(-(until_ms - since_ms) // max(points, 1))
        level = self._level_for(since_ms, step_ms)
        step_ms = max(level.step_ms, step_ms)
        since_ms -= since_ms % step_ms
        found: dict[str, list[tuple[int, float]]] = {name: [] for name in series}
        wanted = [(self._slots[name], found[name]) for name in series if name in self._slots]
        for ms, samples in self._rows(level, since_ms, until_ms) if wanted else ():
            for slot, values in wanted:
                if slot.number < len(samples) and ms >= slot.since_ms:
                    values.append((ms, samples[slot.number]))
        return {name: even_curve(values, since_ms, until_ms, step_ms) for name, values in found.items()}

    def names(self, prefix: str) -> list[str]:
        return sorted(name for name in self._slots if name.startswith(prefix))

    def close(self) -> None:
        self._database.close()

    def _level_for(self, since_ms: int, step_ms: int) -> HistoryLevel:
        """Coarsest level that reaches back far enough and is fine enough: it has the fewest rows."""
        reaching = [level for level in LEVELS if since_ms >= self._newest - level.keep_ms] or [LEVELS[-1]]
        fine_enough = [level for level in reaching if level.step_ms <= step_ms]
        return fine_enough[-1] if fine_enough else reaching[0]

    def _rows(
        self, level: HistoryLevel, since_ms: int, until_ms: int
    ) -> Iterator[tuple[int, memoryview[float]]]:
        """Rows of this level, then newer rows of the finer levels."""
        for each in reversed(LEVELS[: LEVELS.index(level) + 1]):
            rows = self._database.execute(
                f"SELECT ms, samples FROM {each.table} WHERE ms >= ? AND ms < ? ORDER BY ms",
                (since_ms, until_ms),
            )
            for ms, samples in rows:
                since_ms = ms + each.step_ms
                yield ms, memoryview(samples).cast("f")

    def _row(self, values: Mapping[str, float]) -> array[float]:
        row = array("f", [MISSING]) * (1 + max((slot.number for slot in self._slots.values()), default=-1))
        for name, value in values.items():
            slot = self._slots.get(name)
            if slot is not None:
                row[slot.number] = value
        return row

    def _insert(self, level: HistoryLevel, ms: int, row: array[float]) -> None:
        self._database.execute(f"INSERT OR REPLACE INTO {level.table} VALUES (?, ?)", (ms, row.tobytes()))

    def _name_new_series(self, values: Iterable[str], ms: int) -> None:
        new = [name for name in values if name not in self._slots]
        if not new:
            return
        free = self._free_slots(ms)
        for name, number in zip(new, free, strict=False):
            self._slots[name] = HistorySlot(number, ms)
            self._database.execute(
                "INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?)", (number, name, ms, ms)
            )

    def _free_slots(self, ms: int) -> Iterator[int]:
        """Unused slots first, then slots whose values have all expired."""
        yield from range(len(self._slots), self._most_series)
        unused = ms - LEVELS[-1].keep_ms
        for name, number in self._database.execute(
            "SELECT name, slot FROM series WHERE used < ?", (unused,)
        ).fetchall():
            self._slots.pop(name, None)
            yield number

    def _mark_used(self, values: Iterable[str], ms: int) -> None:
        """Update the last use of the series, hourly: expiry takes a month."""
        if ms - self._marked_ms < HOUR_MS:
            return
        self._marked_ms = ms
        slots = [(ms, self._slots[name].number) for name in values if name in self._slots]
        self._database.executemany("UPDATE series SET used = ? WHERE slot = ?", slots)

    def _condense(self, now_ms: int) -> None:
        """Insert the means of completed steps into the coarser levels, including steps missed during a restart."""
        for finer, level in pairwise(LEVELS):
            last = self._database.execute(f"SELECT max(ms) FROM {level.table}").fetchone()[0]
            begin = now_ms - finer.keep_ms if last is None else last + level.step_ms
            while (first := self._first_after(finer, begin)) is not None:
                begin = first - first % level.step_ms
                if begin + level.step_ms > now_ms - now_ms % finer.step_ms:
                    break
                self._insert(level, begin, self._mean(finer, begin, begin + level.step_ms))
                begin += level.step_ms

    def _first_after(self, level: HistoryLevel, ms: int) -> int | None:
        query = f"SELECT min(ms) FROM {level.table} WHERE ms >= ?"
        first: int | None = self._database.execute(query, (ms,)).fetchone()[0]
        return first

    def _mean(self, level: HistoryLevel, since_ms: int, until_ms: int) -> array[float]:
        rows = [samples for _, samples in self._rows(level, since_ms, until_ms)]
        return array("f", means(rows))


def means(rows: Sequence[Sequence[float]]) -> Iterator[float]:
    """Mean of each column, ignoring missing values."""
    for at in range(max(map(len, rows), default=0)):
        values = [row[at] for row in rows if at < len(row) and row[at] == row[at]]
        yield sum(values) / len(values) if values else MISSING
