"""Cache folder of compiled loops: numba executes its content, so it must be private."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from barnabas.records.columnar import choose_cache, is_ours


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The cache of the user, and the folder for temporary files."""
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return cache, temporary


def test_cache_is_private_to_the_user(places: tuple[Path, Path]) -> None:
    chosen = Path(choose_cache())
    assert chosen == places[0] / "barnabas" / "numba"
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o700
    assert os.environ["NUMBA_CACHE_DIR"] == str(chosen)


def test_without_a_home_it_is_a_folder_of_our_own_among_the_temporary_ones(places: tuple[Path, Path]) -> None:
    places[0].write_text("no folder")
    chosen = Path(choose_cache())
    assert chosen == places[1] / f"barnabas-numba-{os.getuid()}"
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o700


@pytest.mark.parametrize("trap", ["a link", "writable for all", "somebody else's", "a file"])
def test_foreign_files_are_not_used(
    places: tuple[Path, Path], tmp_path: Path, trap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places[0].write_text("no folder")
    prepared = places[1] / f"barnabas-numba-{os.getuid()}"
    if trap == "a link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        prepared.symlink_to(tmp_path / "theirs")
    elif trap == "a file":
        prepared.write_text("")
    else:
        prepared.mkdir(mode=0o700)
        prepared.chmod(0o777 if trap == "writable for all" else 0o700)
        if trap == "somebody else's":
            user = os.getuid()
            monkeypatch.setattr(os, "getuid", lambda: user + 1)
            prepared.rename(places[1] / f"barnabas-numba-{user + 1}")
    chosen = Path(choose_cache())
    assert chosen != prepared
    assert chosen.parent == places[1]
    assert chosen.name.startswith("barnabas-numba-")
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o700
    assert not is_ours(prepared) or trap == "somebody else's"


def test_folder_of_one_process_is_removed_with_it(tmp_path: Path) -> None:
    """As for a user whose folders are all traps."""
    (tmp_path / f"barnabas-numba-{os.getuid()}").write_text("")
    (tmp_path / "cache").write_text("")
    program = "from barnabas.records.columnar import CACHE; import os; print(CACHE, os.path.isdir(CACHE))"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    folder, was_there = ended.stdout.split()
    assert (was_there, Path(folder).exists()) == ("True", False)
    assert Path(folder).parent == tmp_path
