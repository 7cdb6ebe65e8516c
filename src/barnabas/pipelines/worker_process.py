"""What Spark's Python workers need: memory that is kept from batch to batch, and a quiet end.

The C library maps a large block each time it is taken, and unmaps it when it is freed. A task takes and frees
some MiB for every fetch, and the first touch of each page is a fault: a quarter of a microsecond on most machines and
four in some virtual ones, where a worker that reads a topic spent a third of its time on them.

PySpark collects garbage after each task of a worker. What it goes through are the modules that were imported: 170,000
objects with numba and pandas, which takes 25 to 40 ms each time, as long as all of a small batch.

Spark ends a worker that was idle for a minute by closing its socket. PySpark's worker then reports the end of the
socket to the socket, and leaves a BrokenPipeError with its traceback in the terminal of the user, a minute after all
went well.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import sys
from functools import cache
from socket import socket
from typing import Any

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

LARGEST_KEPT = 32 * 1024 * 1024  # of one block: the most that glibc allows
MOST_KEPT = 256 * 1024 * 1024  # of all that is free at the end of the heap

DAEMON = "pyspark.daemon"  # what Spark forks its workers from; some of them whatever `spark.python.daemon.module` says
_tasks = itertools.count()


def begin_task() -> None:
    """To be called at the beginning of each task."""
    keep_freed_memory()
    set_modules_aside()
    leave_quietly()


@cache
def keep_freed_memory() -> bool:
    """For this process, from now on. False where the C library is not glibc: nothing is kept, and nothing lost."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    done = [mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT), mallopt(_M_TRIM_THRESHOLD, MOST_KEPT)]
    return all(done)


def set_modules_aside() -> None:
    """Done with the second task: at the end of the first, when Spark takes
    its results, the last modules were imported."""
    if next(_tasks) == 1:
        gc.collect()
        gc.freeze()


def leave_quietly() -> None:
    """For this process, if it is such a worker: from the next task that it waits for."""
    main: Any = sys.modules["__main__"]
    if getattr(main.__spec__, "name", "") != DAEMON or main.worker.__module__ == __name__:
        return
    serve = main.worker

    def worker(sock: socket, authenticated: bool) -> int:
        try:
            code: int = serve(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)  # what the daemon does when it has printed the traceback
        return code

    main.worker = worker
