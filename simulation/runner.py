"""Many scenarios, on all cores. A seed decides everything: it does not matter which process runs it, or when.

A scenario leaves some fifteen thousand objects of dead brokers behind, in cycles: to find and free them would take a
fifth of the time. So some scenarios at a time are run by a child, a fork of a process in which everything that is made
only once has been made, and the child's memory ends with it.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from enum import Enum
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

from simulation.mirrors import MirrorScenario
from simulation.scenario import Scenario, ScenarioFailed

RUN_AT_ONCE = 20  # scenarios that a child runs: about a second, and some 15 MB that are never freed
WARMING_SEEDS = (1, 2)  # one with offsets that are committed, one with transactions

_FORKING = get_context("fork")


class ScenarioKind(Enum):
    """Kinds of scenarios."""

    PLAIN = "plain"
    TIERED = "tiered"
    MIRRORS = "mirrors"

    def scenario(self, seed: int) -> Scenario:
        """Every second mirror is promoted."""
        if self is ScenarioKind.MIRRORS:
            return MirrorScenario(seed, promoted=seed % 2 == 0)
        return Scenario(seed, tiered=self is ScenarioKind.TIERED)


def run(
    first: int,
    last: int,
    kind: ScenarioKind = ScenarioKind.PLAIN,
    *,
    processes: int | None = None,
    seconds: float = float("inf"),
    progress: Callable[[int], None] = lambda done: None,
    on_failure: Callable[[ScenarioFailed], None] | None = None,
) -> int:
    """How many of the scenarios with the seeds `first` to `last` were run within the time. `progress` is called now and
    then with the number so far. A scenario that fails is given to `on_failure`; without it, the first is raised."""
    deadline = time.time() + seconds  # comparable between processes
    with _one_order_of_sets(), _pool(processes or os.cpu_count(), kind) as pool:
        pending = [pool.submit(_run, share, deadline, kind) for share in _shares(first, last)]
        done = 0
        try:
            for future in pending:
                outcome = future.result()
                for failure in outcome.failures:
                    if on_failure is None:
                        raise failure
                    on_failure(failure)
                done += outcome.done
                progress(done)
            return done
        finally:
            pool.shutdown(cancel_futures=True)


def _pool(processes: int | None, kind: ScenarioKind) -> ProcessPoolExecutor:
    """Separate processes even if it is one: they are alike, whatever the one that starts them has done before."""
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=_warm_up, initargs=(kind,))


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
    for start in range(first, last + 1, RUN_AT_ONCE):
        yield range(start, min(start + RUN_AT_ONCE, last + 1))


def _warm_up(kind: ScenarioKind) -> None:
    """Make everything that is made at its first use, and keep the garbage collector from looking at it."""
    for seed in WARMING_SEEDS:
        with suppress(ScenarioFailed):  # reported when this seed is run
            kind.scenario(seed).run()
    gc.collect()
    gc.freeze()
    gc.disable()


class RunResult(NamedTuple):
    done: int
    failures: list[ScenarioFailed]


def _run(seeds: range, deadline: float, kind: ScenarioKind = ScenarioKind.PLAIN) -> RunResult:
    """Let a child run these scenarios."""
    outcome, report = _FORKING.Pipe(duplex=False)
    child = _FORKING.Process(target=_run_here, args=(seeds, deadline, report, kind))
    child.start()
    report.close()
    try:
        found: RunResult = outcome.recv()
    except EOFError:
        raise RuntimeError(f"a process died while it ran scenarios {seeds[0]} to {seeds[-1]}") from None
    finally:
        child.join()
    return found


def _run_here(seeds: range, deadline: float, report: Connection, kind: ScenarioKind) -> None:
    done, failures = 0, []
    for seed in seeds:
        if time.time() > deadline:
            break
        try:
            kind.scenario(seed).run()
        except ScenarioFailed as failure:
            failures.append(failure)
        done += 1
    report.send(RunResult(done, failures))


__all__ = ["ScenarioFailed", "ScenarioKind", "run"]
