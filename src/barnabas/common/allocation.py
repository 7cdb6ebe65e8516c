"""Keep freed memory in the process instead of returning it to the kernel.

glibc maps each large block on allocation and unmaps it on free. Code that repeatedly allocates several MiB (a fetch, a
chunk of a remote segment) pays a page fault for each page: 0.25 microseconds on most machines, 4 on some virtual ones.
That took a third of the time of a task reading a topic, and a fifth of that of a broker reading remote segments.
"""

from __future__ import annotations

import ctypes
from functools import cache

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

MAX_KEPT_BLOCK = 32 * 1024 * 1024  # per block: the maximum that glibc allows
MAX_KEPT_HEAP = 256 * 1024 * 1024  # free memory at the end of the heap


@cache
def keep_freed_memory() -> bool:
    """Raise glibc's mmap and trim thresholds for this process; False, without effect, if the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    done = [mallopt(_M_MMAP_THRESHOLD, MAX_KEPT_BLOCK), mallopt(_M_TRIM_THRESHOLD, MAX_KEPT_HEAP)]
    return all(done)
