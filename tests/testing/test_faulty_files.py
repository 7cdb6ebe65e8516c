"""The fault-injecting file system must not be more lenient than a real one."""

import errno
import random

import pytest

from barnabas.testing.files import FaultyFileSystem, PowerLost


@pytest.fixture
def fs() -> FaultyFileSystem:
    fs = FaultyFileSystem()
    fs.make_folders("/data")
    fs.sync_folder("/")
    return fs


def write(fs: FaultyFileSystem, path: str, data: bytes, *, sync: bool = False) -> None:
    file = fs.open(path, create=True)
    file.append(data)
    if sync:
        file.sync()


def test_written_data_is_read_back(fs: FaultyFileSystem) -> None:
    write(fs, "/data/a", b"hello")
    assert fs.read_bytes("/data/a") == b"hello"
    assert fs.open("/data/a").read(3, 1) == b"ell"
    assert (fs.size("/data/a"), fs.exists("/data/b"), fs.list("/data")) == (5, False, ["a"])


def test_a_crash_keeps_synced_bytes_under_synced_names_only(fs: FaultyFileSystem) -> None:
    write(fs, "/data/synced", b"kept", sync=True)
    fs.sync_folder("/data")
    fs.open("/data/synced").append(b" lost")
    write(fs, "/data/without a name", b"x", sync=True)
    after = fs.crash()
    assert dict(after.files()) == {"/data/synced": b"kept"}


def test_a_file_with_a_synced_name_and_unsynced_bytes_is_empty_after_a_crash(fs: FaultyFileSystem) -> None:
    write(fs, "/data/a", b"x")
    fs.sync_folder("/data")
    assert dict(fs.crash().files()) == {"/data/a": b""}


def test_a_killed_process_loses_nothing(fs: FaultyFileSystem) -> None:
    write(fs, "/data/a", b"x")
    assert dict(fs.crash(lose_unsynced=False).files()) == {"/data/a": b"x"}


def test_a_rename_is_lost_as_a_whole(fs: FaultyFileSystem) -> None:
    write(fs, "/data/a", b"x", sync=True)
    fs.sync_folder("/data")
    fs.rename("/data/a", "/data/b")
    assert fs.list("/data") == ["b"]
    assert fs.crash().list("/data") == ["a"]


def test_a_removed_file_comes_back_unless_the_folder_was_synced(fs: FaultyFileSystem) -> None:
    write(fs, "/data/a", b"x", sync=True)
    fs.sync_folder("/data")
    fs.remove("/data/a")
    assert not fs.exists("/data/a")
    fs.sync_folder("/data")
    assert not fs.crash().exists("/data/a")


def test_an_atomic_write_survives_as_a_whole(fs: FaultyFileSystem) -> None:
    fs.write_atomic("/data/a", b"old")
    fs.write_atomic("/data/a", b"new", sync=False)
    for seed in range(20):
        twin = FaultyFileSystem()
        twin.make_folders("/data")
        twin.sync_folder("/")
        twin.write_atomic("/data/a", b"old")
        twin.lose_power_at(seed % 5 + 1)
        with pytest.raises(PowerLost):
            twin.write_atomic("/data/a", b"new")
        assert twin.crash(torn=random.Random(seed)).read_bytes("/data/a") in (b"old", b"new")


def test_a_torn_crash_keeps_some_beginning_of_the_unsynced_bytes(fs: FaultyFileSystem) -> None:
    found = set()
    for seed in range(200):
        twin = FaultyFileSystem()
        twin.make_folders("/data")
        twin.sync_folder("/")
        write(twin, "/data/a", b"synced", sync=True)
        twin.sync_folder("/data")
        twin.open("/data/a").append(b"0123456789")
        found.add(twin.crash(torn=random.Random(seed)).read_bytes("/data/a"))
    assert {b"synced", b"synced0123456789"} < found
    assert all(
        contents.rstrip(b"\0") == b"synced0123456789"[: len(contents.rstrip(b"\0"))] for contents in found
    )
    assert any(contents.endswith(b"\0") for contents in found)


def test_the_planned_operation_fails_and_no_other(fs: FaultyFileSystem) -> None:
    file = fs.open("/data/a", create=True)
    fs.fail_at(2, OSError(errno.EIO, "broken"), "sync")
    file.append(b"x")
    file.sync()
    with pytest.raises(OSError, match="broken"):
        file.sync()
    file.sync()


def test_nothing_works_after_power_was_lost(fs: FaultyFileSystem) -> None:
    file = fs.open("/data/a", create=True)
    fs.lose_power_at(1)
    with pytest.raises(PowerLost):
        file.append(b"0123456789")
    with pytest.raises(PowerLost):
        fs.remove("/data/a")
    assert fs.crash(lose_unsynced=False).read_bytes("/data/a") == b"01234", "the last write was done half"


def test_a_full_disk_refuses_a_write_and_leaves_the_file_as_it_was() -> None:
    fs = FaultyFileSystem(space=10)
    file = fs.open("/a", create=True)
    file.append(b"12345678")
    with pytest.raises(OSError, match="space") as refusal:
        file.append(b"abc")
    assert refusal.value.errno == errno.ENOSPC
    assert (file.size, fs.read_bytes("/a"), fs.capacity("/")[1]) == (8, b"12345678", 2)
    file.truncate(4)
    assert fs.capacity("/")[1] == 6
    fs.remove("/a")
    assert fs.capacity("/")[1] == 10


def test_missing_files_and_folders_are_distinguished(fs: FaultyFileSystem) -> None:
    with pytest.raises(FileNotFoundError):
        fs.open("/data/none")
    with pytest.raises(IsADirectoryError):
        fs.open("/data")
    with pytest.raises(FileNotFoundError):
        fs.rename("/data/none", "/data/x")


def test_a_folder_moves_with_all_that_is_in_it(fs: FaultyFileSystem) -> None:
    fs.make_folders("/data/a/b")
    write(fs, "/data/a/b/c", b"x")
    fs.rename("/data/a", "/data/z")
    assert dict(fs.files()) == {"/data/z/b/c": b"x"}
    fs.remove_tree("/data/z")
    assert fs.list("/data") == []
