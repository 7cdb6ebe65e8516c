"""How long the steps of long work hold the loop."""

from __future__ import annotations

from collections.abc import Generator
from time import thread_time
from typing import Any

MAX_STEP = 0.02  # CPU seconds: the target for every step on the event loop


def longest_step(steps: Generator[None, None, Any]) -> tuple[float, Any]:
    """CPU seconds of the longest step, and what the work returned, or the exception that ended it."""
    longest = 0.0
    while True:
        began = thread_time()
        try:
            next(steps)
        except StopIteration as end:
            return max(longest, thread_time() - began), end.value
        except Exception as error:
            return max(longest, thread_time() - began), error
        longest = max(longest, thread_time() - began)
