"""Waiting until somebody wants us to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

LOOK_SECONDS = 0.5


def wait_for_signal(go_on: Callable[[], bool]) -> None:
    """Return after SIGINT or SIGTERM, or when there is nothing to wait for any longer."""
    stop = threading.Event()

    def asked(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, asked)
    while go_on() and not stop.wait(LOOK_SECONDS):
        pass
