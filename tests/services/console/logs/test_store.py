from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.services.console.logs.chunks import UNFINISHED
from barnabas.services.console.logs.lines import rows_of
from barnabas.services.console.logs.store import InUseError, LogStore, LogStoreSettings
from tests.services.console.logs.making import NOW_MS, TP, columns_of, store_of


def offsets(store: LogStore) -> list[int]:
    return [offset for chunk in store.chunks for offset in chunk.rows.column("offset").to_pylist()]


def test_positions_belong_to_the_files(tmp_path: Path) -> None:
    store = store_of(tmp_path, [b"line"] * 50, chunk_rows=14)
    in_files = sum(chunk.rows.num_rows for chunk in store.chunks if chunk.path is not None)
    assert offsets(store) == list(range(50))
    store.close()  # without a flush, as after a kill

    again = LogStore(tmp_path)
    assert offsets(again) == list(range(in_files))
    assert again.positions[TP.topic].next[TP.partition] == in_files < 50
    again.close()


def test_flushed_records_survive_a_restart(tmp_path: Path) -> None:
    store = store_of(tmp_path, [b"\xff\xfe", b"x"] * 10, chunk_rows=1000)
    store.flush()
    store.close()
    again = LogStore(tmp_path)
    assert again.chunks[0].rows.column("message").view("binary").to_pylist()[:2] == [b"\xff\xfe", b"x"]
    assert again.rows == 20
    again.close()


def test_a_damaged_file_and_those_behind_it_are_read_again(tmp_path: Path) -> None:
    store = store_of(tmp_path, [b"line"] * 70, chunk_rows=14)
    paths = [chunk.path for chunk in store.chunks if chunk.path is not None]
    store.close()
    assert len(paths) == 5
    paths[2].write_bytes(paths[2].read_bytes()[:-100])
    (tmp_path / f"000{UNFINISHED}").write_bytes(b"half")

    again = LogStore(tmp_path)
    assert offsets(again) == list(range(28))
    assert again.positions[TP.topic].next == {0: 28}
    assert sorted(tmp_path.glob("*")) == sorted([*paths[:2], tmp_path / "lock"])
    again.close()


def test_the_oldest_files_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    store = store_of(tmp_path, [b"x" * 1000] * 200, chunk_rows=50)
    size = store.chunks[0].size
    store.close()
    now = NOW_MS / 1000
    again = LogStore(tmp_path, LogStoreSettings(most_bytes=2 * size + size // 2), clock=lambda: now)
    again.expire()
    assert len(again.chunks) == 2
    assert offsets(again)[-1] == max(offsets(again)) > 140
    assert len(list(tmp_path.glob("*.arrow"))) == 2
    again.close()


def test_lines_that_are_too_old_go_but_not_how_far_was_read(tmp_path: Path) -> None:
    store = store_of(tmp_path, [b"x"] * 70, chunk_rows=14)
    positions = store.positions
    store.close()
    later = LogStore(tmp_path, LogStoreSettings(keep_seconds=3600), clock=lambda: NOW_MS / 1000 + 3 * 3600)
    later.expire()
    assert len(later.chunks) == 1
    later.close()
    with LogStore(tmp_path) as again:
        assert again.positions == positions


def test_recreated_topic_is_read_from_its_beginning(tmp_path: Path) -> None:
    with store_of(tmp_path, [b"x"] * 10, chunk_rows=100) as store:
        store.begin(TP.topic, "another id", 0, 0)
        assert store.positions[TP.topic].next == {0: 0}


def test_many_small_additions_are_few_chunks(tmp_path: Path) -> None:
    with LogStore(tmp_path, clock=lambda: NOW_MS / 1000) as store:
        for first in range(300):
            store.add(TP.topic, "id", 0, rows_of(TP, columns_of([b"x"], first=first)))
        assert len(store.chunks) < 12
        assert offsets(store) == list(range(300))


def test_lines_are_not_readable_by_other_users_of_the_machine(tmp_path: Path) -> None:
    with LogStore(tmp_path / "logs") as store:
        assert store.folder.stat().st_mode & 0o077 == 0


def test_a_folder_belongs_to_one_console(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    with pytest.raises(InUseError, match="another console"):
        LogStore(tmp_path)
    store.close()
    LogStore(tmp_path).close()
