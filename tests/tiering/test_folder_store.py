"""A folder as object store, beyond the contract."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.tiering.stores.folder_files import WRITING, FolderFiles, always
from barnabas.tiering.stores.opening import FolderStore
from barnabas.tiering.stores.store import (
    MissingObjectError,
    StoreDeniedError,
    StoreError,
    StoreUnavailableError,
)

COUNTER = """
import asyncio, sys
from barnabas.tiering.stores.opening import FolderStore
from barnabas.tiering.stores.store import ObjectExistsError, StaleVersionError

async def main():
    store = FolderStore(sys.argv[1])
    won = 0
    for number in range(60):
        try:
            await store.create(f"race/{number}", sys.argv[2].encode())
            won += 1
        except ObjectExistsError:
            pass
    for _ in range(40):
        while True:
            number, version = await store.get("counter")
            try:
                await store.replace("counter", b"%d" % (int(number) + 1), version)
                break
            except StaleVersionError:
                pass
    await store.close()
    print(won)

asyncio.run(main())
"""

KILLED = """
import os, sys
from barnabas.tiering.stores.folder_files import FolderFiles
file = FolderFiles(sys.argv[1]).begin("object")
file.append(b"half of it")
os.kill(os.getpid(), 9)
"""


def test_processes_that_race_create_each_object_once_and_lose_no_update(tmp_path: Path) -> None:
    FolderFiles(str(tmp_path)).write("counter", b"0", always)
    racers = [
        subprocess.Popen([sys.executable, "-c", COUNTER, tmp_path, name], stdout=subprocess.PIPE, text=True)
        for name in ("one", "two", "three")
    ]
    won = [int(racer.communicate()[0]) for racer in racers]
    assert sum(won) == 60
    assert (tmp_path / "counter").read_bytes() == b"120"
    assert list((tmp_path / WRITING).iterdir()) == []


def test_unfinished_files_of_a_killed_process_are_removed_and_those_of_a_live_one_are_not(
    tmp_path: Path,
) -> None:
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert len(list((tmp_path / WRITING).iterdir())) == 1

    ours, reference_store = FolderFiles(str(tmp_path)), FolderFiles(str(tmp_path))
    file = ours.begin("another")
    assert [path.name for path in (tmp_path / WRITING).iterdir()] == [Path(file.path).name]
    reference_store.write("a/third", b"", always)
    file.append(b"whole")
    ours.finish(file, "another", always)
    assert ours.read("another").data == b"whole"
    assert list((tmp_path / WRITING).iterdir()) == []


def test_an_upload_that_is_cancelled_leaves_no_file_at_all(tmp_path: Path) -> None:
    async def main() -> None:
        store, begun = FolderStore(str(tmp_path)), asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield bytes(1000)
                begun.set()

        upload = asyncio.create_task(store.upload("a/object", endless()))
        await begun.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        await store.close()

    asyncio.run(main())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / ".lock"]


def test_files_and_folders_belong_to_the_owner_alone(tmp_path: Path) -> None:
    FolderFiles(str(tmp_path)).write("a/b/object", b"", always)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "object": 0o600, ".lock": 0o600, WRITING: 0o700}


def test_an_object_is_its_bytes_and_nothing_else(tmp_path: Path) -> None:
    FolderFiles(str(tmp_path)).write("a/manifest", b"{}", always)
    assert (tmp_path / "a" / "manifest").read_bytes() == b"{}"


def test_version_is_new_even_if_the_clock_is_set_back(tmp_path: Path) -> None:
    files = FolderFiles(str(tmp_path))
    first = files.write("object", b"1", always)
    in_a_day = os.stat(tmp_path / "object").st_mtime_ns + 86_400 * 10**9
    os.utime(tmp_path / "object", ns=(in_a_day, in_a_day))
    second = files.write("object", b"1", always)
    assert second != first
    assert os.stat(tmp_path / "object").st_mtime_ns > in_a_day


@pytest.mark.parametrize("key", ["", "/a", "a//b", "../a", "a/../b", ".lock", "a/"])
def test_keys_cannot_leave_the_folder_or_meet_its_own_files(tmp_path: Path, key: str) -> None:
    async def main() -> None:
        store = FolderStore(str(tmp_path))
        with pytest.raises(StoreError, match="not a valid object key"):
            await store.put(key, b"")
        with pytest.raises(StoreError, match="not a valid object key"):
            await store.get(key)
        await store.close()

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, StoreDeniedError, "is full: free some space"),
        (errno.EDQUOT, StoreDeniedError, "is full: free some space"),
        (errno.EACCES, StoreDeniedError, "Allow the broker's account"),
        (errno.EROFS, StoreDeniedError, "Allow the broker's account"),
        (errno.EIO, StoreUnavailableError, "Check the disk"),
        (errno.ENOENT, MissingObjectError, "is not in"),
    ],
)
def test_disk_errors_have_a_remedy(tmp_path: Path, number: int, kind: type[StoreError], advice: str) -> None:
    described = FolderFiles(str(tmp_path)).described(OSError(number, os.strerror(number)), "a/object")
    assert type(described) is kind
    assert advice in described.message


def test_a_disk_that_is_not_mounted_is_not_a_missing_object(tmp_path: Path) -> None:
    async def main() -> None:
        store = FolderStore(str(tmp_path / "unmounted"))
        with pytest.raises(StoreUnavailableError, match="is its disk mounted"):
            await store.get("object")
        with pytest.raises(StoreUnavailableError, match="is its disk mounted"):
            await store.create("object", b"")
        await store.close()

    asyncio.run(main())
