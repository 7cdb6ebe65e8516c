"""Runs many scenarios on all cores. The seed alone determines a scenario, not the process or time it runs in.

A scenario leaves about fifteen thousand objects of dead brokers in reference cycles; collecting them would take a fifth
of the run time. Forked children therefore run a few scenarios each and exit without collecting. They inherit all
lazily initialized state from a warmed-up parent.
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

RUN_AT_ONCE = 20  # scenarios per child: about a second, and about 15 MB that are never freed
WARMING_SEEDS = (1, 2)  # one with offset commits, one with transactions

_FORKING = get_context("fork")


class ScenarioKind(Enum):
    """Kinds of scenarios."""

    PLAIN = "plain"
    TIERED = "tiered"
    MIRRORS = "mirrors"

    def scenario(self, seed: int) -> Scenario:
        """Scenario of this kind for a seed; every second mirror scenario includes a promotion."""
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
    """Run the scenarios `first` to `last` within the time limit and return the number completed. `progress` gets the
    count so far at intervals. Failures go to `on_failure`; without it, the first one is raised."""
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
    """Worker processes, even if only one: their state is independent of the history of the parent."""
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=_warm_up, initargs=(kind,))


@contextmanager
def _one_order_of_sets() -> Iterator[None]:
    """Fix the hash seed of processes started meanwhile, so that sets of strings iterate in the same order."""
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
    """Initialize everything that is created lazily, and exclude it from garbage collection."""
    for seed in WARMING_SEEDS:
        with suppress(ScenarioFailed):  # reported when the seed itself runs
            kind.scenario(seed).run()
    gc.collect()
    gc.freeze()
    gc.disable()


class RunResult(NamedTuple):
    done: int
    failures: list[ScenarioFailed]


def _run(seeds: range, deadline: float, kind: ScenarioKind = ScenarioKind.PLAIN) -> RunResult:
    """Run these scenarios in a forked child."""
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
