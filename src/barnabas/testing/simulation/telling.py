"""Many stories, on all cores. A seed decides everything, so it does not matter who tells which story, or when."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from barnabas.testing.simulation.scenario import Story, StoryFailed

TOLD_AT_ONCE = 20  # stories that a process gets at a time: a second or two


def tell(
    first: int,
    last: int,
    *,
    processes: int | None = None,
    seconds: float = float("inf"),
    progress: Callable[[int], None] = lambda told: None,
) -> int:
    """How many of the stories with the seeds `first` to `last` were told within the time; StoryFailed with the first
    that ended badly. `progress` hears now and then how many there are by now."""
    deadline = time.time() + seconds  # comparable between processes
    # Processes of their own even if it is one: they are alike, whatever the one that starts them has done before.
    with _one_order_of_sets(), ProcessPoolExecutor(processes or os.cpu_count(), get_context("spawn")) as pool:
        pending = [pool.submit(_tell, share, deadline) for share in _shares(first, last)]
        told = 0
        try:
            for future in pending:
                told += future.result()
                progress(told)
            return told
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
    with _garbage_collected_at_the_end():
        for seed in seeds:
            if time.time() > deadline:
                break
            Story(seed).run()
            told += 1
    return told


@contextmanager
def _garbage_collected_at_the_end() -> Iterator[None]:
    """A story leaves some megabytes of dead brokers behind. To look for them while it is told, again and again and in
    all modules besides, would take a sixth of the time."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


__all__ = ["StoryFailed", "tell"]
