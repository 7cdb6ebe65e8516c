"""Record batches as columns: decoded to Arrow and encoded from it, by loops that numba compiles.

    python -m barnabas.records.columnar

compiles every loop ahead of time: a second or two for each, once for a machine and a user, where the first rows of a
first query would wait for it otherwise. numba and pyarrow are extras (`barnabas[spark]`): nothing in the core imports
this package, but for a walk that takes the compiled loop when it is there (`records/walking.py`).
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
    """One folder a user for compiled loops, whatever the working directory: Spark's workers have many.

    numba runs what it finds there, so nobody else may be able to write to it.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return chosen
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # The second is for a container whose user has no home that can be written.
    places = (Path(home, "barnabas", "numba"), Path(tempfile.gettempdir(), f"barnabas-numba-{os.getuid()}"))
    folder = next(filter(is_ours, places), None) or _for_this_process()
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    return str(folder)


def is_ours(folder: Path) -> bool:
    """It is there, or could be made, belongs to this user, and no one else can write to it."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700, parents=True)
        found = folder.lstat()  # a link may lead anywhere tomorrow
        is_private = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and is_private and os.access(folder, os.W_OK)
    except OSError:
        return False


def _for_this_process() -> Path:
    """As good as none: for this process and those that it starts."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-numba-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a child that was forked
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


# Before numba is imported, which reads the variable once.
CACHE = choose_cache()
