"""Lets Spark's Python workers go without a traceback when they are told to go.

Spark ends a worker that was idle for a minute by closing its socket. PySpark's worker then reports the end of the
socket to the socket, and leaves a BrokenPipeError with its traceback in the terminal of the user, a minute after all
went well. Nobody is at the other end of a broken pipe: there is nothing to tell, and nobody to tell it.
"""

from __future__ import annotations

import os
import sys
from socket import socket
from typing import Any

DAEMON = "pyspark.daemon"  # what Spark forks its workers from; some of them whatever `spark.python.daemon.module` says


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
