"""Waiting for something with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not after {seconds:g} s"
        time.sleep(0.05)
