"""Many stories, on all cores. A seed decides everything, so it does not matter who tells which story, or when.

A story leaves some fifteen thousand objects of dead brokers behind, in circles: to find and free them would take a
fifth of the time. So a share of the stories is told by a child, a fork of a process that has everything which is made
only once, and the child's memory goes with it, as it is.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection

from barnabas.testing.simulation.scenario import Story, StoryFailed

TOLD_AT_ONCE = 20  # stories that a child tells: about a second, and some 15 MB that are never freed
WARMING_SEEDS = (1, 2)  # one with offsets that are committed, one with transactions

_FORKING = get_context("fork")


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
    with _one_order_of_sets(), _pool(processes or os.cpu_count()) as pool:
        pending = [pool.submit(_tell, share, deadline) for share in _shares(first, last)]
        told = 0
        try:
            for future in pending:
                told += future.result()
                progress(told)
            return told
        finally:
            pool.shutdown(cancel_futures=True)


def _pool(processes: int | None) -> ProcessPoolExecutor:
    """Processes of their own even if it is one: they are alike, whatever the one that starts them has done before."""
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=_warm_up)


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


def _warm_up() -> None:
    """Let everything be made that is made at its first use, and nothing be looked through for garbage any more."""
    for seed in WARMING_SEEDS:
        with suppress(StoryFailed):  # whoever asks for this seed will hear of it
            Story(seed).run()
    gc.collect()
    gc.freeze()
    gc.disable()


def _tell(seeds: range, deadline: float) -> int:
    """Let a child tell these stories."""
    outcome, report = _FORKING.Pipe(duplex=False)
    child = _FORKING.Process(target=_tell_here, args=(seeds, deadline, report))
    child.start()
    report.close()
    try:
        told: int | StoryFailed = outcome.recv()
    except EOFError:
        raise RuntimeError(f"a process died while it told stories {seeds[0]} to {seeds[-1]}") from None
    finally:
        child.join()
    if isinstance(told, StoryFailed):
        raise told
    return told


def _tell_here(seeds: range, deadline: float, report: Connection) -> None:
    told = 0
    try:
        for seed in seeds:
            if time.time() > deadline:
                break
            Story(seed).run()
            told += 1
        report.send(told)
    except StoryFailed as failure:
        report.send(failure)


__all__ = ["StoryFailed", "tell"]
