"""Record batches as columns: decoded to Arrow and encoded from it, by loops that numba compiles.

    python -m barnabas.records.columnar

compiles every loop ahead of time (one or two seconds each, once per machine and user), so that the first query does not
wait for it. numba and pyarrow are extras (`barnabas[spark]`): nothing in the core imports this package, except
`records/walking.py`, which uses the compiled scan if it is available.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path


def choose_cache() -> str:
    """Choose one cache folder per user for compiled loops, independent of the working directory.

    numba executes the files it finds there, so no other user may be able to write to it.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return chosen
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # The second is for a container whose user has no writable home.
    candidates = (
        Path(home, "barnabas", "numba"),
        Path(tempfile.gettempdir(), f"barnabas-numba-{os.getuid()}"),
    )
    folder = next(filter(is_ours, candidates), None) or _for_this_process()
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    return str(folder)


def is_ours(folder: Path) -> bool:
    """Return True if the folder exists or was created, belongs to this user, and no other user can write to it."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700, parents=True)
        found = folder.lstat()  # do not follow links
        is_private = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and is_private and os.access(folder, os.W_OK)
    except OSError:
        return False


def _for_this_process() -> Path:
    """A temporary folder, for this process and its children only."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-numba-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


# numba reads the variable once, on import.
CACHE = choose_cache()
