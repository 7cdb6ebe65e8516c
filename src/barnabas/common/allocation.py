"""Memory that is kept from use to use.

The C library maps a large block each time it is taken, and unmaps it when it is freed. Who takes and frees some MiB
again and again (a fetch, a chunk of a remote segment) pays for the first touch of each page: a quarter of a
microsecond on most machines and four in some virtual ones. A task that reads a topic spent a third of its time on that,
a broker that reads remote segments a fifth.
"""

from __future__ import annotations

import ctypes
from functools import cache

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

MAX_KEPT_BLOCK = 32 * 1024 * 1024  # of one block: the most that glibc allows
MAX_KEPT_HEAP = 256 * 1024 * 1024  # of all that is free at the end of the heap


@cache
def keep_freed_memory() -> bool:
    """For this process, from now on. False where the C library is not glibc: nothing is kept, and nothing lost."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    done = [mallopt(_M_MMAP_THRESHOLD, MAX_KEPT_BLOCK), mallopt(_M_TRIM_THRESHOLD, MAX_KEPT_HEAP)]
    return all(done)
