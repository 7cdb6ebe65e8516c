"""Calls a function at a steady rate, independent of the duration of each call."""

import time
from collections.abc import Callable

_NAP_SECONDS = 0.0002


def at_rate(per_second: int, seconds: float, call: Callable[[], None], between: Callable[[], object]) -> None:
    """Make the calls that are due by the clock; `between` (polls for callbacks) runs before each short sleep."""
    begin = time.perf_counter()
    total, done = int(per_second * seconds), 0
    while done < total:
        due = min(total, int((time.perf_counter() - begin) * per_second))
        for _ in range(due - done):
            call()
        done = due
        between()
        time.sleep(_NAP_SECONDS)
