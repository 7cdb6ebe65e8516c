"""Scenarios of a simulated cluster lose no record, and injected bugs are detected."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from simulation.mutants import MUTANTS
from simulation.runner import RUN_AT_ONCE, RunResult, ScenarioKind, _run, run
from simulation.scenario import Scenario, ScenarioFailed

# Always the same scenarios, and as many of them as the time allows; `make simulate` runs as many others as one likes.
SECONDS = float(os.environ.get("SIMULATION_SECONDS", "20"))
FIRST_SEED, LAST_SEED = 1000, 9999
MUTANT_SCENARIOS = 200

# Each of these failed once: a lost answer about the high watermark, a follower that was eligible too late, a leader
# that had not counted fetches from before its election, a broker that could not stop or forgot a loss of power, a late
# request of an earlier life, a fetch that named and forgot a partition, records that were cut and came back. A seed
# gives another scenario whenever the code draws other random numbers, or in another order: now these are like others.
ONCE_FAILED = (1, 2, 7, 54, 73, 104, 138, 10111, 20072, 20075, 20187, 51571)


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_scenario_that_once_failed_succeeds(seed: int) -> None:
    Scenario(seed).run()


@pytest.mark.timeout(300)
def test_no_scenario_loses_a_record_takes_one_back_or_has_two_leaders() -> None:
    assert run(FIRST_SEED, LAST_SEED, seconds=SECONDS) > 0


def test_finding_of_a_child_is_reported_to_the_parent_and_ends_nothing() -> None:
    seeds = range(1, MUTANT_SCENARIOS)
    with MUTANTS["divergence_goes_unnoticed"]():
        done, failures = _run(seeds, deadline=float("inf"))
    assert done == len(seeds)
    assert all(failure.reason and failure.events for failure in failures)
    assert 0 < len(failures) < done


@pytest.mark.parametrize("keeps_going", [False, True])
def test_the_first_failure_ends_a_run_unless_it_keeps_going(
    monkeypatch: pytest.MonkeyPatch, keeps_going: bool
) -> None:
    failed: list[ScenarioFailed] = []
    monkeypatch.setattr("simulation.runner._pool", lambda processes, kind: ThreadPoolExecutor(1))
    monkeypatch.setattr("simulation.runner._run", lambda *_: RunResult(2, [ScenarioFailed(7, "lost", [])]))
    if keeps_going:
        assert run(1, 2 * RUN_AT_ONCE, ScenarioKind.MIRRORS, on_failure=failed.append) == 4
        assert [failure.seed for failure in failed] == [7, 7]
    else:
        with pytest.raises(ScenarioFailed):
            run(1, 2 * RUN_AT_ONCE, ScenarioKind.MIRRORS)


def test_scenarios_have_transactions_of_either_kind_and_processes_that_stop() -> None:
    scenarios = [Scenario(seed) for seed in range(1, 9)]
    for scenario in scenarios:
        scenario.run()
    traders = [trader for scenario in scenarios for trader in scenario.workload.traders]
    assert any(trader.committed for trader in traders)
    assert any(trader.aborted for trader in traders)
    assert any("does nothing for" in event for scenario in scenarios for event in scenario.events)


def test_a_seed_gives_the_same_scenario_again() -> None:
    first, second = Scenario(5), Scenario(5)
    first.run()
    second.run()
    assert first.events == second.events
    assert first.world.loop.time() == second.world.loop.time()


@pytest.mark.parametrize("name", [None, *MUTANTS])
def test_incremental_checks_equal_full_ones(name: str | None) -> None:
    with MUTANTS[name]() if name else nullcontext():
        for seed in range(1, 6):
            assert _outcome(Scenario(seed)) == _outcome(Scenario(seed, thorough=True))


def _outcome(scenario: Scenario) -> tuple[str, float, list[str]]:
    try:
        scenario.run()
    except ScenarioFailed as failure:
        return failure.reason, scenario.world.loop.time(), scenario.events
    return "", scenario.world.loop.time(), scenario.events


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.timeout(300)
def test_a_bug_put_in_on_purpose_is_found(name: str) -> None:
    with MUTANTS[name]():
        for seed in range(1, MUTANT_SCENARIOS):
            try:
                Scenario(seed).run()
            except ScenarioFailed:
                return
    pytest.fail(f"{MUTANT_SCENARIOS} scenarios, and the bug was not found")
