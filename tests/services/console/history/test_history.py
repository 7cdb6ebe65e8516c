from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas.services.console.history.history import History

WRITER = """
import asyncio, sys
from pathlib import Path
from barnabas.services.console.history.history import History

async def main():
    history = History(Path(sys.argv[1]))
    await history.open()
    for at in range(1_000_000):
        await history.record(1_800_000_000_000 + at * 10_000, {f"series-{n}": float(at) for n in range(200)})
        print(at, flush=True)

asyncio.run(main())
"""


def now_ms() -> int:
    return int(time.time() * 1000)


def test_a_console_that_is_killed_loses_no_tick_that_it_had_recorded(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(100)]
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stdout.close()

    async def read() -> list[float | None]:
        history = History(path)
        await history.open()
        start = 1_800_000_000_000
        curve = await history.read("series-7", start, start + 100 * 10_000, 100)
        await history.record(start + 200 * 10_000, {"series-7": 1.0})
        await history.close()
        return curve.values

    assert asyncio.run(read()) == [float(at) for at in acknowledged]


@pytest.mark.parametrize("damage", [b"this is no database", b"SQLite format 3\0" + bytes(4096)])
def test_damaged_file_is_renamed_and_replaced(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(damage)

    async def use() -> list[str]:
        history = History(path)
        await history.open()
        await history.record(now_ms(), {"a": 1.0})
        names = await history.names()
        await history.close()
        return names

    assert asyncio.run(use()) == ["a"]
    assert (tmp_path / "history.sqlite.damaged").read_bytes() == damage


def test_a_folder_that_cannot_be_written_leaves_curves_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    async def use() -> list[str]:
        history = History(tmp_path / "file" / "history.sqlite")
        await history.open()
        await history.record(now_ms(), {"a": 1.0})
        names = await history.names()
        await history.close()
        return names

    assert asyncio.run(use()) == ["a"]


def test_failed_disk_leaves_pages_without_curves_and_denies_searches(tmp_path: Path) -> None:
    path = tmp_path / "default" / "history.sqlite"

    async def use() -> list[float | None]:
        history = History(path)
        await history.open()
        await history.record(now_ms(), {"a": 1.0})
        with sqlite3.connect(path) as other:
            other.execute("DROP TABLE ticks")
        found = (await history.read("a", now_ms() - 60_000, now_ms() + 10_000)).values
        await history.close()
        return found

    assert asyncio.run(use()) == []
    assert path.parent.stat().st_mode & 0o077 == 0
