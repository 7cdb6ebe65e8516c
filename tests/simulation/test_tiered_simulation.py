"""Scenarios with tiered topics and a failing object store: no loss, duplicates, overlaps or leftovers."""

from __future__ import annotations

import os

import pytest

from barnabas.tiering.writing.pacing import Step
from simulation.runner import ScenarioKind, run
from simulation.scenario import Scenario, ScenarioFailed
from simulation.tiers.mutants import (
    MUTANTS,
    an_unclean_leader_does_not_wait,
    only_the_first_controller_deletes,
)

SCENARIOS = int(os.environ.get("TIERED_SCENARIOS", "30"))
FIRST_SEED = 1000
MAX_SECONDS = 90.0  # on a machine with much else to do, fewer
MUTANT_SCENARIOS = 300
STEP_SCENARIOS = 100
UNCLEAN_SCENARIOS = 8
DELETED_SCENARIOS = 6


@pytest.mark.timeout(300)
def test_no_scenario_loses_doubles_or_leaves_anything_behind() -> None:
    assert run(FIRST_SEED, FIRST_SEED + SCENARIOS - 1, ScenarioKind.TIERED, seconds=MAX_SECONDS) > 0


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("what", ["kill", "stop"])
def test_a_broker_may_die_or_stop_at_every_step(step: Step, what: str) -> None:
    for seed in range(1, STEP_SCENARIOS):
        scenario = Scenario(seed, tiered=True)
        assert scenario.world.tiers is not None
        assert scenario.faults.store is not None
        scenario.faults.store.trap(step, 1, getattr(scenario.faults.store, what))
        scenario.run()
        if scenario.world.tiers.traps.sprung[step]:
            return
    pytest.fail(f"in {STEP_SCENARIOS} scenarios nobody was at {step}")


def test_a_seed_gives_the_same_tiered_scenario_again() -> None:
    first, second = Scenario(5, tiered=True), Scenario(5, tiered=True)
    first.run()
    second.run()
    assert first.events == second.events
    assert first.world.loop.time() == second.world.loop.time()


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.timeout(300)
def test_a_bug_of_tiering_put_in_on_purpose_is_found(name: str) -> None:
    with MUTANTS[name]():
        seeds = range(1, MUTANT_SCENARIOS)
        assert any(_fails(Scenario(seed, tiered=True)) for seed in seeds), "the bug was not found"


def test_copied_records_survive_an_unclean_election() -> None:
    for seed in range(1, UNCLEAN_SCENARIOS + 1):
        Scenario(seed, tiered=True, unclean=True).run()


def test_an_unclean_election_ends_where_all_three_replicas_were_to_be_in_sync() -> None:
    scenario = Scenario(1, tiered=True, unclean=True)
    scenario.workload.settings["min.insync.replicas"] = "3"
    scenario.run()


def test_an_unclean_leader_that_does_not_wait_for_the_manifest_is_found() -> None:
    with an_unclean_leader_does_not_wait():
        outcomes = [
            _fails(Scenario(seed, tiered=True, unclean=True)) for seed in range(1, UNCLEAN_SCENARIOS + 1)
        ]
    assert any(outcomes)


def test_nothing_is_left_of_a_topic_that_is_deleted() -> None:
    for seed in range(1, DELETED_SCENARIOS + 1):
        Scenario(seed, tiered=True, deleted=True).run()


def test_controller_that_forgets_a_started_deletion_is_detected() -> None:
    with only_the_first_controller_deletes():
        seeds = range(1, DELETED_SCENARIOS + 1)
        assert any(_fails(Scenario(seed, tiered=True, deleted=True)) for seed in seeds)


def _fails(scenario: Scenario) -> bool:
    try:
        scenario.run()
    except ScenarioFailed:
        return True
    return False
