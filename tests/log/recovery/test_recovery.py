"""Recovery after an unclean stop: truncated tails, reported damage, rebuilt indexes."""

import random

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.log import Log
from barnabas.log.recovery.verification import ShutdownKind
from barnabas.records.batch import iterate_headers
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import (
    PARTITION,
    TOPIC_ID,
    append,
    batch,
    get,
    loaded,
    produced,
    read_all,
)

FIRST_LOG = "/data/orders-0/00000000000000000000.log"


def written(count: int, *, flushed: int = 0, config: LogConfig | None = None) -> FaultyFileSystem:
    """A folder with one partition of `count` batches of two records, `flushed` of them synced."""
    fs = FaultyFileSystem()
    logs, _ = loaded(fs)
    log = logs.create(PARTITION, TOPIC_ID, config or LogConfig())
    for number in range(count):
        append(log, batch(f"{number}a".encode(), f"{number}b".encode()))
        if number + 1 == flushed:
            log.flush()
            logs.checkpoint()
    return fs.crash(lose_unsynced=False)


def expected(batches: int) -> list[tuple[int, bytes | None]]:
    return [(2 * n + i, f"{n}{'ab'[i]}".encode()) for n in range(batches) for i in range(2)]


def batch_starts(fs: FaultyFileSystem, path: str = FIRST_LOG) -> list[int]:
    return [position for position, _ in iterate_headers(fs.read_bytes(path))]


def copy(fs: FaultyFileSystem) -> FaultyFileSystem:
    twin = FaultyFileSystem()
    for path, contents in fs.files():
        twin.make_folders(path.rpartition("/")[0])
        twin.open(path, create=True)
        twin.overwrite(path, contents)
    return twin


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"], ids=["killed", "crashed"])
def test_the_tail_may_be_torn_at_any_byte(boot: str) -> None:
    fs = written(5)
    contents = fs.read_bytes(FIRST_LOG)
    starts = [*batch_starts(fs), len(contents)]
    for end in range(starts[3], len(contents)):
        torn = copy(fs)
        torn.overwrite(FIRST_LOG, contents[:end])
        logs, report = loaded(torn, boot=boot)
        complete = sum(1 for start in starts[1:] if start <= end)
        assert read_all(get(logs)) == expected(complete)
        assert report.cut_bytes == end - starts[complete]


def test_any_flipped_byte_above_the_recovery_point_is_cut_or_harmless() -> None:
    fs = written(5)
    contents = fs.read_bytes(FIRST_LOG)
    starts = batch_starts(fs)
    for position in range(starts[3], len(contents)):
        damaged = copy(fs)
        flipped = bytearray(contents)
        flipped[position] ^= 0x41
        damaged.overwrite(FIRST_LOG, bytes(flipped))
        logs, report = loaded(damaged, boot="boot-2")
        in_batch = sum(1 for start in starts if start <= position) - 1
        in_leader_epoch = 12 <= position - starts[in_batch] < 16  # not covered by the checksum
        assert read_all(get(logs)) == expected(5 if in_leader_epoch else in_batch)
        assert not report.damaged


@pytest.mark.parametrize("tail", [bytes(1), bytes(100), bytes(5000), b"\xff" * 300, b"garbage" * 50])
@pytest.mark.parametrize("boot", ["boot-1", "boot-2"], ids=["killed", "crashed"])
def test_a_tail_of_zeros_or_garbage_is_cut(tail: bytes, boot: str) -> None:
    fs = written(3)
    fs.overwrite(FIRST_LOG, fs.read_bytes(FIRST_LOG) + tail)
    logs, report = loaded(fs, boot=boot)
    assert read_all(get(logs)) == expected(3)
    assert report.recovered[PARTITION].cut_bytes == len(tail)


def test_cut_batches_are_counted_where_distinguishable() -> None:
    fs = written(5)
    contents = bytearray(fs.read_bytes(FIRST_LOG))
    contents[batch_starts(fs)[2] + 70] ^= 1
    fs.overwrite(FIRST_LOG, bytes(contents))
    _, report = loaded(fs, boot="boot-2")
    assert report.recovered[PARTITION].cut_batches == 3
    assert "wrong checksum" in report.recovered[PARTITION].cut_reason


def test_damage_below_the_recovery_point_takes_the_partition_offline_and_changes_nothing() -> None:
    fs = written(5, flushed=3)
    contents = bytearray(fs.read_bytes(FIRST_LOG))
    contents[batch_starts(fs)[1] + 70] ^= 1
    fs.overwrite(FIRST_LOG, bytes(contents))
    logs, report = loaded(fs, boot="boot-2")
    assert logs.get(PARTITION) is None
    assert "barnabas log repair /data/orders-0" in str(report.damaged[PARTITION])
    assert fs.read_bytes(FIRST_LOG) == bytes(contents)


def test_damage_is_remembered_even_if_the_next_stop_is_clean() -> None:
    fs = written(5, flushed=3)
    contents = bytearray(fs.read_bytes(FIRST_LOG))
    contents[batch_starts(fs)[1] + 70] ^= 1
    fs.overwrite(FIRST_LOG, bytes(contents))
    logs, _ = loaded(fs, boot="boot-2")
    logs.close()
    again, report = loaded(fs, boot="boot-2")
    assert report.stops["/data"] is ShutdownKind.CLEAN
    assert PARTITION in report.damaged
    assert again.get(PARTITION) is None


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"], ids=["killed", "crashed"])
def test_a_log_shorter_than_its_recovery_point_is_damaged(boot: str) -> None:
    fs = written(5, flushed=5)
    fs.overwrite(FIRST_LOG, fs.read_bytes(FIRST_LOG)[: batch_starts(fs)[4]])
    _, report = loaded(fs, boot=boot)
    assert "intact up to offset 8 only" in str(report.damaged[PARTITION])


def test_a_log_without_segments_is_damaged_if_there_were_some() -> None:
    fs = written(5, flushed=5)
    fs.remove(FIRST_LOG)
    _, report = loaded(fs)
    assert "no segments" in str(report.damaged[PARTITION])


def test_a_bad_batch_takes_all_later_segments_with_it() -> None:
    small = LogConfig(segment_bytes=300)
    fs = written(12, config=small)
    paths = [path for path, _ in fs.files() if path.endswith(names.LOG)]
    assert len(paths) > 3
    contents = bytearray(fs.read_bytes(paths[1]))
    contents[70] ^= 1
    fs.overwrite(paths[1], bytes(contents))
    logs, report = loaded(fs, small, boot="boot-2")
    kept = int(paths[1].rpartition("/")[2].split(".")[0])
    assert read_all(get(logs)) == expected(kept // 2)
    assert not fs.exists(paths[2])
    assert report.recovered[PARTITION].cut_batches == 12 - kept // 2
    append(get(logs), batch(b"new"))
    assert read_all(get(logs))[-1] == (kept, b"new")


@pytest.mark.parametrize("suffix", [names.OFFSET_INDEX, names.TIME_INDEX])
@pytest.mark.parametrize("damage", ["deleted", "emptied", "cut", "zeros", "garbage"])
def test_indexes_are_built_again(suffix: str, damage: str) -> None:
    config = LogConfig(segment_bytes=3000, index_interval_bytes=100)
    fs = FaultyFileSystem()
    logs, _ = loaded(fs, config)
    log = logs.create(PARTITION, TOPIC_ID, config)
    for number in range(60):
        append(log, batch(f"{number}".encode(), timestamp=1_700_000_000_000 + number))
    logs.close()
    for path, contents in list(fs.files()):
        if path.endswith(suffix):
            _spoil(fs, path, contents, damage)
    logs, report = loaded(fs, config)
    assert not report.damaged
    log = get(logs)
    assert read_all(log) == [(n, str(n).encode()) for n in range(60)]
    for number in (0, 17, 31, 59):
        assert read_all(log, number)[0] == (number, str(number).encode())
        found = log.offset_for_timestamp(1_700_000_000_000 + number)
        assert found is not None
        assert found.offset == number


def _spoil(fs: FaultyFileSystem, path: str, contents: bytes, damage: str) -> None:
    if damage == "deleted":
        fs.remove(path)
    elif damage == "emptied":
        fs.overwrite(path, b"")
    elif damage == "cut":
        fs.overwrite(path, contents[:-3])
    elif damage == "zeros":
        fs.overwrite(path, bytes(len(contents)))
    else:
        fs.overwrite(path, random.Random(1).randbytes(len(contents)))


def test_producers_are_known_again_after_a_crash() -> None:
    config = LogConfig(segment_bytes=400)
    fs = FaultyFileSystem()
    logs, _ = loaded(fs, config)
    log = logs.create(PARTITION, TOPIC_ID, config)
    for sequence in range(8):
        append(log, produced(7, 0, sequence, b"x"))
    for boot in ("boot-1", "boot-2"):
        logs, _ = loaded(fs.crash(lose_unsynced=False), config, boot=boot)
        _assert_producer_continues(get(logs))


def test_producers_are_known_again_when_the_newest_snapshot_is_damaged() -> None:
    config = LogConfig(segment_bytes=400)
    fs = FaultyFileSystem()
    logs, _ = loaded(fs, config)
    log = logs.create(PARTITION, TOPIC_ID, config)
    for sequence in range(8):
        append(log, produced(7, 0, sequence, b"x"))
    logs.close()
    snapshots = [path for path, _ in fs.files() if path.endswith(names.PRODUCER_SNAPSHOT)]
    fs.overwrite(snapshots[-1], fs.read_bytes(snapshots[-1])[:-1])
    logs, _ = loaded(fs, config)
    _assert_producer_continues(get(logs))


def _assert_producer_continues(log: Log) -> None:
    duplicate = append(log, produced(7, 0, 7, b"x"))
    assert (duplicate.first_offset, duplicate.duplicate) == (7, True)
    assert append(log, produced(7, 0, 8, b"y")).first_offset == 8


def test_leftovers_of_interrupted_steps_are_resolved() -> None:
    fs = written(3)
    folder = "/data/orders-0"
    for name in ("00000000000000000000.index.tmp", "00000000000000000009.log.deleted", "1.log.cleaned"):
        fs.open(f"{folder}/{name}", create=True)
    fs.open(f"{folder}/00000000000000000077.index", create=True)
    logs, _ = loaded(fs)
    assert read_all(get(logs)) == expected(3)
    assert not [name for name in fs.list(folder) if name.endswith((".tmp", ".deleted", ".cleaned"))]
    assert not fs.exists(f"{folder}/00000000000000000077.index")


def test_a_finished_swap_is_completed() -> None:
    fs = written(4)
    contents = fs.read_bytes(FIRST_LOG)
    compacted = contents[: batch_starts(fs)[1]] + contents[batch_starts(fs)[3] :]
    fs.open(FIRST_LOG + ".swap", create=True)
    fs.overwrite(FIRST_LOG + ".swap", compacted)
    logs, _ = loaded(fs, LogConfig(cleanup_policy=frozenset({"compact"})))
    assert [offset for offset, _ in read_all(get(logs))] == [0, 1, 6, 7]
    assert read_all(get(logs), 3)[0][0] == 6


def test_a_log_start_above_everything_that_survived_starts_an_empty_log() -> None:
    fs = written(5)
    fs.open("/data/log-start-offset-checkpoint", create=True)
    fs.overwrite("/data/log-start-offset-checkpoint", b"0\n1\norders 0 50\n")
    logs, _ = loaded(fs)
    log = get(logs)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert append(log, batch(b"x")).first_offset == 50


def test_leader_epochs_are_found_again_in_the_batches() -> None:
    fs = FaultyFileSystem()
    logs, _ = loaded(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, batch(b"a"), epoch=3)
    append(log, batch(b"b"), epoch=5)
    logs, _ = loaded(fs.crash(lose_unsynced=False), boot="boot-2")
    assert get(logs).epochs.entries == ((3, 0), (5, 1))
    logs.close()
