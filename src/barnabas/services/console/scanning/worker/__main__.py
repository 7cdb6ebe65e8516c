"""`python -m barnabas.services.console.scanning.worker`: a search process, started by the console, over pipes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

NICE = 10
"""Brokers on the same machine come first."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the console, and that ends its pipes
    with contextlib.suppress(OSError):
        os.nice(NICE)
    from barnabas.services.console.scanning.worker.serving import serve

    asyncio.run(serve())


if __name__ == "__main__":
    main()
