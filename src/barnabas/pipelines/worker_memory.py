"""What Spark's Python workers do with their memory between two batches.

The C library maps a large block anew each time it is taken, and unmaps it when it is freed. A task takes and frees
some MiB for every fetch, and the first touch of each page is a fault: a quarter of a microsecond on most machines and
four in some virtual ones, where a worker that reads a topic spent a third of its time on them.

PySpark collects garbage after each task of a worker. What it goes through are the modules that were imported: 170,000
objects with numba and pandas, which takes 25 to 40 ms each time, as long as all of a small batch.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
from functools import cache

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

LARGEST_KEPT = 32 * 1024 * 1024  # of one block: the most that glibc allows
MOST_KEPT = 256 * 1024 * 1024  # of all that is free at the end of the heap

_tasks = itertools.count()


@cache
def keep_freed_memory() -> bool:
    """For this process, from now on. False where the C library is not glibc: nothing is kept, and nothing lost."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    done = [mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT), mallopt(_M_TRIM_THRESHOLD, MOST_KEPT)]
    return all(done)


def set_modules_aside() -> None:
    """To be called at the beginning of each task. It is done with the second: at the end of the first, when Spark takes
    its results, the last modules were imported."""
    if next(_tasks) == 1:
        gc.collect()
        gc.freeze()
