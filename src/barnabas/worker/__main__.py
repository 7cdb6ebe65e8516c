"""`python -m barnabas.worker`, started by a broker and by nobody else."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys

from barnabas.files import LocalFileSystem
from barnabas.worker.serving import Channel, serve

NICENESS = 10
"""Requests come first: about a tenth of the CPU when the loop wants it too, all of it when it is idle."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the broker, and the broker stops us
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s worker: %(message)s")
    output = os.dup(1)
    os.dup2(2, 1)  # whatever prints must not disturb the pipe
    serve(Channel(0, output), LocalFileSystem())


if __name__ == "__main__":
    main()
