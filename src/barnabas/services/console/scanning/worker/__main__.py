"""`python -m barnabas.services.console.scanning.worker`: search process, started by the console, over pipes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

NICE = 10
"""Lower priority than brokers on the same machine."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the console, which closes the pipes
    with contextlib.suppress(OSError):
        os.nice(NICE)
    from barnabas.services.console.scanning.worker.serving import serve

    asyncio.run(serve())


if __name__ == "__main__":
    main()
