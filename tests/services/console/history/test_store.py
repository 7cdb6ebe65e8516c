from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.services.console.history.store import HOUR_MS, HistoryStore

TICK = 10_000
NOW = 1_800_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[HistoryStore]:
    made = HistoryStore(path)
    yield made
    made.close()


def fill(store: HistoryStore, since_ms: int, count: int, series: str = "cluster/in") -> None:
    for at in range(count):
        store.record(since_ms + at * TICK, {series: float(at)})


def values(store: HistoryStore, series: str, since_ms: int, until_ms: int, points: int) -> list[float | None]:
    return store.read([series], since_ms, until_ms, points)[series].values


def test_recorded_samples_are_read_back_with_gaps(store: HistoryStore) -> None:
    for at, tick in ((0, 1.0), (1, 2.0), (5, 6.0)):
        store.record(NOW + at * TICK, {"a": tick, "b": -tick})

    found = store.read(["a", "b", "unknown"], NOW, NOW + 6 * TICK, 6)

    assert found["a"].times == [NOW + at * TICK for at in range(6)]
    assert found["a"].values == [1.0, 2.0, None, None, None, 6.0]
    assert found["b"].values == [-1.0, -2.0, None, None, None, -6.0]
    assert found["unknown"].is_empty


def test_one_tick_that_came_late_leaves_no_gap(store: HistoryStore) -> None:
    for at in (0, 1, 3):
        store.record(NOW + at * TICK, {"a": float(at)})

    assert values(store, "a", NOW, NOW + 4 * TICK, 4) == [0.0, 1.0, 1.0, 3.0]


def test_fewer_points_are_means(store: HistoryStore) -> None:
    fill(store, NOW, 12)

    assert values(store, "cluster/in", NOW, NOW + 12 * TICK, 2) == [2.5, 8.5]


def test_curves_survive_a_restart(path: Path) -> None:
    first = HistoryStore(path)
    fill(first, NOW, 3)
    first.close()
    again = HistoryStore(path)
    again.record(NOW + 3 * TICK, {"cluster/in": 3.0, "new": 1.0})

    assert values(again, "cluster/in", NOW, NOW + 4 * TICK, 4) == [0.0, 1.0, 2.0, 3.0]
    assert again.names("") == ["cluster/in", "new"]
    again.close()


def test_older_time_is_coarser_and_the_file_is_bounded(store: HistoryStore, path: Path) -> None:
    hours = 5
    fill(store, NOW, hours * 360)
    end = NOW + hours * HOUR_MS

    early = values(store, "cluster/in", NOW, NOW + 600_000, 10)
    with sqlite3.connect(path) as database:
        counts = [
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("ticks", "minutes")
        ]

    assert early == [pytest.approx(2.5 + 6 * minute) for minute in range(10)]
    assert values(store, "cluster/in", end - 60_000, end, 6)[-1] == hours * 360 - 1
    assert counts[0] <= 2 * 360 + 1
    assert counts[1] == pytest.approx(hours * 60, abs=1)


def test_minutes_that_a_stopped_console_missed_are_made_when_it_is_back(path: Path) -> None:
    first = HistoryStore(path)
    fill(first, NOW, 9)  # a minute and a half
    first.close()
    again = HistoryStore(path)
    again.record(NOW + 90 * 60_000, {"cluster/in": 7.0})

    found = values(again, "cluster/in", NOW - 3 * HOUR_MS, NOW + 2 * HOUR_MS, 300)

    assert [value for value in found if value is not None][:2] == [2.5, 7.0]
    again.close()


def test_slot_unused_for_a_month_is_reused_for_another_series(path: Path) -> None:
    store = HistoryStore(path, most_series=2)
    store.record(NOW, {"a": 1.0, "b": 2.0})
    store.record(NOW + TICK, {"a": 1.0, "c": 3.0})
    assert store.names("") == ["a", "b"]  # full: the last one is not recorded

    later = NOW + 31 * 24 * HOUR_MS
    store.record(later, {"a": 1.0, "c": 3.0})
    store.record(later + HOUR_MS, {"a": 1.0, "c": 4.0})

    assert store.names("") == ["a", "c"]
    assert [value for value in values(store, "c", NOW, later + 2 * HOUR_MS, 9) if value] == [3.5]
    store.close()


def test_a_full_disk_names_no_series_that_is_not_in_the_file(path: Path) -> None:
    store = HistoryStore(path)
    store.record(NOW, {"a": 1.0})
    (pages,) = store._database.execute("PRAGMA page_count").fetchone()
    store._database.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.record(NOW + TICK, {f"series of a name that is long {number}": 1.0 for number in range(1000)})
    assert store.names("") == ["a"]

    store._database.execute("PRAGMA max_page_count=1000000")
    store.record(NOW + 2 * TICK, {"a": 3.0, "b": 2.0})
    store.close()
    again = HistoryStore(path)
    assert values(again, "b", NOW + 2 * TICK, NOW + 3 * TICK, 1) == [2.0]
    assert values(again, "a", NOW + 2 * TICK, NOW + 3 * TICK, 1) == [3.0]
    again.close()


@pytest.mark.parametrize("exists", [True, False])
def test_only_the_owner_reads_the_history_even_in_an_open_folder(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "open"
    folder.mkdir(0o755)
    path = folder / "history.sqlite"
    if exists:
        path.touch(0o644)
    store = HistoryStore(path)
    store.record(HOUR_MS, {"a": 1.0})

    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}

    store.close()
    assert set(modes.values()) == {0o600}, modes
    assert len(modes) > 1
