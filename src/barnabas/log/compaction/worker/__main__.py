"""`python -m barnabas.log.compaction.worker`, started only by a broker."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys

from barnabas.common.files import LocalFileSystem
from barnabas.common.pipe_channel import PipeChannel
from barnabas.log.compaction.worker.serving import serve

NICENESS = 5
"""Requests have priority: about a quarter of a CPU shared with the event loop, all of an idle one."""


def main() -> None:
    # A terminal sends signals to the whole process group; the broker stops the worker when it stops.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    gc.disable()  # a job creates millions of objects and no cycles
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s worker: %(message)s")
    output = os.dup(1)
    os.dup2(2, 1)  # printed text must not corrupt the pipe
    serve(PipeChannel(0, output), LocalFileSystem())


if __name__ == "__main__":
    main()
