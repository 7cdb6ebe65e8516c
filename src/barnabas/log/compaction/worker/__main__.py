"""`python -m barnabas.log.compaction.worker`, started by a broker and by nobody else."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys

from barnabas.common.files import LocalFileSystem
from barnabas.log.compaction.worker.serving import Channel, serve

NICENESS = 5
"""Requests come first: a quarter of a CPU that the loop wants too, all of one that is idle."""


def main() -> None:
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # sent to all of a group: the broker stops, and then stops us
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    gc.disable()  # a job makes millions of objects and no cycles
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s worker: %(message)s")
    output = os.dup(1)
    os.dup2(2, 1)  # whatever prints must not disturb the pipe
    serve(Channel(0, output), LocalFileSystem())


if __name__ == "__main__":
    main()
