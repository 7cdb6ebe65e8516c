"""Scenarios with tiered topics and an object store that fails: nothing is lost, doubled, overlapping or left behind."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from barnabas.testing.simulation.runner import run
from barnabas.testing.simulation.scenario import Scenario, ScenarioFailed
from barnabas.testing.simulation.tiers.mutants import MUTANTS
from barnabas.tiering.writing.named_steps import Step

SECONDS = float(os.environ.get("TIERED_SIMULATION_SECONDS", "20"))
FIRST_SEED, LAST_SEED = 1000, 9999
MUTANT_SCENARIOS = 60


@pytest.mark.timeout(300)
def test_no_scenario_loses_doubles_or_leaves_anything_behind() -> None:
    assert run(FIRST_SEED, LAST_SEED, tiered=True, seconds=SECONDS) > 0


def test_brokers_are_at_every_step_and_die_or_stop_at_most_of_them() -> None:
    passed: Counter[Step] = Counter()
    sprung: Counter[Step] = Counter()
    for seed in range(1, 13):
        scenario = Scenario(seed, tiered=True)
        scenario.run()
        assert scenario.world.tiers is not None
        passed += scenario.world.tiers.traps.passed
        sprung += scenario.world.tiers.traps.sprung
    assert set(passed) == set(Step)
    assert len(sprung) >= len(Step) // 2


def test_a_seed_gives_the_same_tiered_scenario_again() -> None:
    first, second = Scenario(5, tiered=True), Scenario(5, tiered=True)
    first.run()
    second.run()
    assert first.events == second.events
    assert first.world.loop.time() == second.world.loop.time()


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.timeout(180)
def test_a_bug_of_tiering_put_in_on_purpose_is_found(name: str) -> None:
    with MUTANTS[name]():
        for seed in range(1, MUTANT_SCENARIOS):
            try:
                Scenario(seed, tiered=True).run()
            except ScenarioFailed:
                return
    pytest.fail(f"{MUTANT_SCENARIOS} scenarios, and the bug was not found")
