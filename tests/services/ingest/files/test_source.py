"""Files through every kind of rotation: each line once, in order. Real files, no broker."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.clock import HAS_BOOT_CLOCK
from barnabas.common.regex import compile_pattern
from barnabas.records.batch import iterate_headers
from barnabas.records.record import Record, iterate_records
from barnabas.services.ingest.batches import BatchTopics
from barnabas.services.ingest.delivery import Collected
from barnabas.services.ingest.files.source import PIECE, FilesSettings, FilesSource
from barnabas.services.ingest.files.tracking import SETTLED_SECONDS

ROOM = 64 * PIECE


class KnownTopics(BatchTopics):
    def __init__(self) -> None:
        super().__init__({})

    def partitions(self, topic: str) -> int:
        return 1

    def max_bytes(self, topic: str) -> int:
        return 1_048_588


READERS: list[Reader] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while READERS:
        READERS.pop().source.close()


class Reader:
    """An agent without a broker: committed state survives `restart`."""

    def __init__(self, *patterns: Path, **settings: object) -> None:
        self.now = 1000.0
        self._settings = FilesSettings(
            [str(pattern) for pattern in patterns],
            "logs",
            "host",
            "dead",
            **settings,  # type: ignore[arg-type]
        )
        self.stored: dict[str, bytes] = {}
        self.lines: list[str] = []
        self.dead: list[Record] = []
        self.restart()

    source: FilesSource

    def restart(self) -> None:
        if self in READERS:
            self.source.close()
        READERS.append(self)
        self.source = FilesSource("files", self._settings, lambda: self.now)
        self.source.begin(self.stored, KnownTopics())

    def read(self, *, committed: bool = True) -> list[str]:
        """Data of one poll. It counts only after a commit."""
        self.now += 1.0
        found: list[str] = []
        while not (collected := self.source.collect(ROOM)).is_empty or collected.unfinished:
            records = list(records_of(collected))
            if not committed:
                continue
            for key, value in collected.positions.items():
                if value is None:
                    self.stored.pop(key, None)
                else:
                    self.stored[key] = value
            found += [(record.value or b"").decode() for topic, record in records if topic == "logs"]
            self.dead += [record for topic, record in records if topic == "dead"]
        self.lines += found
        return found


def records_of(collected: Collected) -> list[tuple[str, Record]]:
    return [
        (batch.tp.topic, record)
        for batch in collected.batches
        for data in [memoryview(batch.seal(1, 0, 0, transactional=True))]
        for _, header in iterate_headers(data)
        for record in iterate_records(data, header)
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


def write(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(line + "\n" for line in lines)


def test_added_records_are_read_once(log: Path) -> None:
    write(log, "a", "b")
    reader = Reader(log)
    assert reader.read() == ["a", "b"]
    assert reader.read() == []
    write(log, "c")
    assert reader.read() == ["c"]


def test_positions_go_on_after_a_restart(log: Path) -> None:
    write(log, "a")
    reader = Reader(log)
    reader.read()
    reader.restart()
    write(log, "b")
    assert reader.read() == ["b"]


def test_uncommitted_records_are_read_again(log: Path) -> None:
    write(log, "a")
    reader = Reader(log)
    reader.read(committed=False)
    reader.restart()
    assert reader.read() == ["a"]


def test_a_line_counts_when_it_ends(log: Path) -> None:
    log.write_text("a\nhal")
    reader = Reader(log)
    assert reader.read() == ["a"]
    log.write_text("a\nhalf\n")
    assert reader.read() == ["half"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_renamed_file_is_read_to_its_end_before_the_new_one(log: Path, restarted: bool) -> None:
    write(log, "a")
    reader = Reader(log)
    reader.read()
    write(log, "b")
    log.rename(log.with_suffix(".log.1"))
    write(log, "c")
    if restarted:
        reader.restart()
    reader.read()
    write(log.with_suffix(".log.1"), "late")
    reader.read()
    assert sorted(reader.lines) == ["a", "b", "c", "late"]
    assert reader.lines.index("b") < reader.lines.index("c")


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_copied_and_truncated_file_loses_nothing(log: Path, pattern: str, restarted: bool) -> None:
    write(log, *(f"line {number}" for number in range(300)))
    reader = Reader(log.parent / pattern)
    reader.read()
    write(log, "unread")
    copy = log.with_suffix(".log.1")
    shutil.copy(log, copy)
    if restarted:
        reader.restart()
    os.truncate(log, 0)
    write(log, "new")
    reader.read()
    reader.read()
    assert reader.lines == [*(f"line {number}" for number in range(300)), "unread", "new"]


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_a_truncation_while_lines_become_batches_doubles_nothing(
    log: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest covers the bytes that were read, not the current content."""
    reader = Reader(Path(f"{log}*"))
    if known:
        log.write_text("zero\n")
        assert reader.read() == ["zero"]
    with log.open("a") as file:
        file.write("one\ntwo\n")
    emit = reader.source._emit

    def truncated_meanwhile(*arguments: Any) -> None:
        monkeypatch.undo()
        shutil.copy(log, f"{log}.1")
        log.write_text("three\n")
        emit(*arguments)

    monkeypatch.setattr(reader.source, "_emit", truncated_meanwhile)
    assert sorted([*reader.read(), *reader.read(), *reader.read()]) == ["one", "three", "two"]


def test_file_rewritten_between_discovery_and_reading_is_identified_by_its_content(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("one\n" * 400)
    reader = Reader(Path(f"{log}*"))
    read = reader.source._read

    def rotated_before(*arguments: Any) -> None:
        monkeypatch.undo()
        rotate()
        log.write_text("two\n" * 500)
        read(*arguments)

    def rotate() -> None:
        for number in (2, 1):
            if Path(f"{log}.{number}").exists():
                Path(f"{log}.{number}").rename(f"{log}.{number + 1}")
        shutil.copy(log, f"{log}.1")

    monkeypatch.setattr(reader.source, "_read", rotated_before)
    found = [*reader.read(), *reader.read()]
    rotate()
    log.write_text("three\n")
    found += [*reader.read(), *reader.read()]
    assert {line: found.count(line) for line in found} == {"one": 400, "two": 500, "three": 1}


def test_a_copy_that_is_being_made_is_not_another_file(log: Path) -> None:
    lines = [f"line {number}" for number in range(1000)]
    write(log, *lines)
    reader = Reader(log.parent / "app.log*")
    reader.read()
    copy = log.with_suffix(".log.1")
    copy.write_bytes(log.read_bytes()[:5000])  # half a copy
    assert reader.read() == []
    shutil.copy(log, copy)
    assert reader.read() == []
    os.truncate(log, 0)
    assert reader.read() == []
    assert reader.lines == lines


@pytest.mark.parametrize("restarted", [False, True])
def test_a_file_that_was_compressed_is_not_read_again(log: Path, restarted: bool) -> None:
    write(log, *(f"line {number}" for number in range(2000)))
    reader = Reader(log.parent / "app.log*")
    reader.read()
    write(log, "unread")
    rotated = log.with_suffix(".log.1")
    log.rename(rotated)
    write(log, "new")
    with gzip.open(f"{rotated}.gz", "wb") as file:
        file.write(rotated.read_bytes())
    if restarted:
        reader.restart()
    else:
        reader.read()
    rotated.unlink()
    reader.read()
    reader.read()
    assert sorted(reader.lines) == sorted([*(f"line {number}" for number in range(2000)), "unread", "new"])


def test_compressed_files_of_unknown_origin_are_read(log: Path) -> None:
    with gzip.open(f"{log}.2.gz", "wb") as file:
        file.write(b"old 1\nold 2")
    write(log, "new")
    reader = Reader(log.parent / "app.log*")
    reader.read()
    assert sorted(reader.lines) == ["new", "old 1", "old 2"]
    assert reader.read() == []


def test_a_compressed_file_that_is_not_complete_waits(log: Path) -> None:
    complete = gzip.compress(b"".join(b"%d\n" % number for number in range(5000)))
    path = log.with_suffix(".gz")
    path.write_bytes(complete[: len(complete) // 2])
    reader = Reader(path)
    assert reader.read() == []
    path.write_bytes(complete)
    reader.read()
    assert reader.lines == [str(number) for number in range(5000)]


def test_a_file_written_again_in_place_is_a_new_one(log: Path) -> None:
    write(log, "first version, long enough")
    reader = Reader(log)
    reader.read()
    log.write_text("second version, longer than the first one was\n")
    assert reader.read() == ["second version, longer than the first one was"]


def test_an_inode_that_is_used_again_is_a_new_file(log: Path) -> None:
    write(log, "old")
    reader = Reader(log)
    reader.read()
    log.write_text("other\n")  # the same inode, as after unlink and create
    reader.restart()
    assert reader.read() == ["other"]


def test_a_truncated_file_that_has_its_old_size_again_is_a_new_one(log: Path) -> None:
    write(log, "one")
    reader = Reader(log)
    reader.read()
    log.write_text("two\n")
    assert reader.read() == ["two"]


def test_unread_file_that_disappears_leaves_no_state(log: Path) -> None:
    """Its inode may be that of a known file after the next restart."""
    log.write_text("no newline yet")
    reader = Reader(log)
    reader.read()
    log.unlink()
    reader.read()
    assert reader.stored == {}


@pytest.mark.skipif(not HAS_BOOT_CLOCK, reason="the time since boot is not known here")
def test_a_file_that_is_away_while_the_clock_jumps_ahead_is_known_when_it_comes_back(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, "one")
    reader = Reader(log)
    reader.read()
    aside = log.rename(tmp_path / "aside")
    reader.now += SETTLED_SECONDS
    reader.read()
    seconds, nanoseconds, month = time.time, time.time_ns, 30 * 24 * 3600
    monkeypatch.setattr(time, "time", lambda: seconds() + month)
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + month * 10**9)
    reader.read()
    aside.rename(log)
    write(log, "two")
    assert reader.read() == ["two"]


def test_two_files_with_equal_beginnings_are_distinct(tmp_path: Path) -> None:
    head = "# header of every file\n" * 60
    (tmp_path / "a.log").write_text(head + "a\n")
    reader = Reader(tmp_path / "*.log")
    reader.read()
    (tmp_path / "b.log").write_text(head + "b\n")
    assert reader.read()[-1] == "b"


def test_a_line_that_is_too_long_becomes_a_dead_letter(log: Path) -> None:
    reader = Reader(log, max_line_bytes=2000)
    with log.open("wb") as file:
        file.write(b"short\n" + b"x" * (3 * PIECE) + b"\nnext\n" + b"y" * 3000 + b"\nlast\n")
    reader.read()
    assert reader.lines == ["short", "next", "last"]
    assert [dict(record.headers)["length"] for record in reader.dead] == [b"%d" % (3 * PIECE), b"3000"]
    assert [dict(record.headers)["offset"] for record in reader.dead] == [b"6", b"%d" % (3 * PIECE + 12)]
    assert max(len(record.value or b"") for record in reader.dead) <= 64 * 1024


def test_an_endless_line_waits_in_bounded_memory_for_its_end(log: Path) -> None:
    reader = Reader(log, max_line_bytes=2000)
    log.write_bytes(b"x" * (2 * PIECE))
    assert reader.read() == []
    assert reader.dead == []
    with log.open("ab") as file:
        file.write(b"x\nend\n")
    assert reader.read() == ["end"]
    assert len(reader.dead) == 1


def test_a_bomb_of_zeros_is_one_dead_letter(log: Path) -> None:
    path = log.with_suffix(".gz")
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(bytes(PIECE))
        file.write(b"\nafter\n")
    reader = Reader(path)
    assert reader.read() == ["after"]
    assert dict(reader.dead[0].headers)["length"] == b"%d" % (64 * PIECE)


def test_events_of_several_lines_end_with_the_next_or_with_silence(log: Path) -> None:
    reader = Reader(log, multiline=compile_pattern("^ERROR|^INFO"), multiline_timeout=5.0)
    write(log, "INFO start", "ERROR broken", "  at x", "  at y")
    assert reader.read() == ["INFO start"]
    write(log, "  at z")
    assert reader.read() == []
    reader.now += 10
    assert reader.read() == ["ERROR broken\n  at x\n  at y\n  at z"]


def test_the_last_line_of_a_replaced_file_ends_after_a_while(log: Path) -> None:
    log.write_text("a\nno newline")
    reader = Reader(log)
    reader.read()
    log.rename(log.with_suffix(".log.1"))
    write(log, "new")
    reader.read()
    assert "no newline" not in reader.lines
    reader.now += SETTLED_SECONDS
    reader.read()
    assert sorted(reader.lines) == ["a", "new", "no newline"]


def test_records_have_their_origin(log: Path) -> None:
    write(log, "a", "bc")
    source = FilesSource("files", FilesSettings([str(log)], "logs", "host", "dead", headers=(("env", b"x"),)))
    source.begin({}, KnownTopics())
    records = [record for _, record in records_of(source.collect(ROOM))]
    assert [record.key for record in records] == [f"host:{log}".encode()] * 2
    assert records[1].headers == (
        ("env", b"x"), ("host", b"host"), ("path", str(log).encode()), ("offset", b"2"),
    )  # fmt: skip
    source.close()


def test_how_far_a_backfill_is_counts_compressed_files_too(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"plain\n" * 1000)
    with gzip.open(tmp_path / "b.gz", "wb") as file:
        file.writelines(os.urandom(600).hex().encode() + b"\n" for _ in range(3000))
    there = sum(path.stat().st_size for path in tmp_path.iterdir())
    reader = Reader(tmp_path / "*")
    reader.source.collect(PIECE)  # a part of it
    read, known = reader.source.behind()
    assert known == there
    assert 6000 <= read < there
    reader.read()
    assert reader.source.behind() == (there, there)
    assert reader.source.observe().lag == 0
