"""Lets a worker keep the memory that it has freed, for the next batch.

The C library maps a large block anew each time it is taken, and unmaps it when it is freed. A task takes and frees
some MiB for every fetch, and the first touch of each page is a fault: a quarter of a microsecond on most machines and
four in some virtual ones, where a worker that reads a topic spent a third of its time on them.
"""

from __future__ import annotations

import ctypes
from functools import cache

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

LARGEST_KEPT = 32 * 1024 * 1024  # of one block: the most that glibc allows
MOST_KEPT = 256 * 1024 * 1024  # of all that is free at the end of the heap


@cache
def keep_freed_memory() -> bool:
    """For this process, from now on. False where the C library is not glibc: nothing is kept, and nothing lost."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    done = [mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT), mallopt(_M_TRIM_THRESHOLD, MOST_KEPT)]
    return all(done)
