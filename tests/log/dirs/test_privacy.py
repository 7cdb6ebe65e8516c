"""Files of a data folder are private to the broker's account, including existing ones."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from barnabas.common.files import LocalFileSystem
from barnabas.log.dirs.properties import make_private
from barnabas.testing import EmbeddedBroker


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_up(folder: Path) -> None:
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    folder.chmod(0o755)


def test_a_data_folder_that_others_could_read_is_closed_at_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with EmbeddedBroker(data_dir=folder) as broker:
        broker.create_topic("orders", partitions=2)
    open_up(folder)
    with EmbeddedBroker(data_dir=folder):
        paths = [folder, *folder.rglob("*")]
        assert len(paths) > 10
        assert {mode(path) for path in paths if path.is_dir()} == {0o700}
        assert {mode(path) for path in paths if path.is_file()} == {0o600}


def test_foreign_files_keep_their_permissions_and_links_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    (folder / "orders-0").mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in ("notes.txt", "bin/run", "meta.properties", "orders-0/00000000000000000000.log"):
        (folder / name).touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    open_up(elsewhere)
    open_up(folder)
    (folder / "orders-0" / "link").symlink_to(elsewhere)
    (folder / "orders-1").symlink_to(elsewhere)
    make_private(LocalFileSystem(), [str(folder)])
    assert [mode(folder / name) for name in ("notes.txt", "bin", "bin/run")] == [0o644, 0o755, 0o644]
    assert [mode(folder / name) for name in ("meta.properties", "orders-0")] == [0o600, 0o700]
    assert mode(folder / "orders-0" / "00000000000000000000.log") == 0o600
    assert [mode(folder), mode(elsewhere), mode(elsewhere / "file")] == [0o700, 0o755, 0o644]


def test_inaccessible_folder_costs_one_check(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0").chmod(0o755)
    os.chmod(tmp_path, 0o700)

    class Counting(LocalFileSystem):
        listed = 0

        def list(self, folder: str) -> list[str]:
            self.listed += 1
            return super().list(folder)

    files = Counting()
    make_private(files, [str(tmp_path)])
    assert files.listed == 0
