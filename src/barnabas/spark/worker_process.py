"""What Spark's Python workers need: memory that is kept from batch to batch, and a quiet end.

A task takes and frees some MiB for every fetch (`barnabas.common.allocation`).

PySpark collects garbage after each task of a worker. What it goes through are the modules that were imported: 170,000
objects with numba and pandas, which takes 25 to 40 ms each time, as long as all of a small batch.

Spark ends a worker that was idle for a minute by closing its socket. PySpark's worker then reports the end of the
socket to the socket, and leaves a BrokenPipeError with its traceback in the terminal of the user, a minute after all
went well.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
from socket import socket
from typing import Any

from barnabas.common.allocation import keep_freed_memory

DAEMON = "pyspark.daemon"  # what Spark forks its workers from; some of them whatever `spark.python.daemon.module` says
_tasks = itertools.count()


def begin_task() -> None:
    """To be called at the beginning of each task."""
    keep_freed_memory()
    set_modules_aside()
    leave_quietly()


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
