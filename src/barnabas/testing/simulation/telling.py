"""Many stories, on all cores. A seed decides everything, so it does not matter who tells which story, or when."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from barnabas.testing.simulation.scenario import Story, StoryFailed

TOLD_AT_ONCE = 20  # stories that a process gets at a time: a second or two


def tell(first: int, last: int, *, processes: int | None = None, seconds: float = float("inf")) -> int:
    """How many of the stories with the seeds `first` to `last` were told within the time; StoryFailed with the first
    that ended badly."""
    deadline = time.time() + seconds  # comparable between processes
    # Processes of their own even if it is one: they are alike, whatever the one that starts them has done before.
    with _one_order_of_sets(), ProcessPoolExecutor(processes or os.cpu_count(), get_context("spawn")) as pool:
        pending = [pool.submit(_tell, share, deadline) for share in _shares(first, last)]
        try:
            return sum(future.result() for future in pending)
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _one_order_of_sets() -> Iterator[None]:
    """What goes through a set of names does so in the same order in every process that starts meanwhile."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before


def _shares(first: int, last: int) -> Iterator[range]:
    for start in range(first, last + 1, TOLD_AT_ONCE):
        yield range(start, min(start + TOLD_AT_ONCE, last + 1))


def _tell(seeds: range, deadline: float) -> int:
    told = 0
    for seed in seeds:
        if time.time() > deadline:
            break
        Story(seed).run()
        told += 1
    return told


__all__ = ["StoryFailed", "tell"]
