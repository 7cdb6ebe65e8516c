"""Record batches as columns: decoded to Arrow and encoded from it, by loops that numba compiles.

    python -m barnabas.records.columnar

compiles every loop ahead of time: a second or two for each, once for a machine and a user, where the first rows of a
first query would wait for it otherwise. numba and pyarrow are extras (`barnabas[spark]`): nothing in the core imports
this package, but for a walk that takes the compiled loop when it is there (`records/walking.py`).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def choose_cache() -> str:
    """One folder a user for compiled loops, whatever the working directory: Spark's workers have many."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return chosen
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(home) / "barnabas" / "numba"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # A container whose user has no home that can be written.
        folder = Path(tempfile.gettempdir()) / f"barnabas-numba-{os.getuid()}"
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    return str(folder)


# Before numba is imported, which reads the variable once.
CACHE = choose_cache()
