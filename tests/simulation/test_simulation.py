"""Stories of a simulated cluster: none may lose a record, and a bug put in on purpose must not go unnoticed."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from barnabas.testing.simulation.mutants import MUTANTS
from barnabas.testing.simulation.scenario import Story, StoryFailed

# CI has two cores and twenty minutes for everything; `make simulate` runs for as long as one likes.
SECONDS = float(os.environ.get("SIMULATION_SECONDS", "20"))
MUTANT_SECONDS = 60.0

# Each of these ended badly once: a lost answer about the high watermark, a follower that was eligible too late,
# a leader that had not counted who came before it was elected, a broker that could not stop or forgot a loss of power,
# a late word of an earlier life, a request that named and forgot, records that had been cut and came back.
ONCE_BAD = (1, 2, 7, 54, 73, 104, 138, 10111, 20072, 20075, 20187, 51571)


@pytest.mark.parametrize("seed", ONCE_BAD)
def test_a_story_that_once_ended_badly_ends_well(seed: int) -> None:
    Story(seed).run()


def test_no_story_loses_a_record_takes_one_back_or_has_two_leaders() -> None:
    end = time.monotonic() + SECONDS
    for seed in itertools.count(1000):
        if time.monotonic() > end:
            break
        Story(seed).run()
    assert seed > 1000


def test_a_seed_tells_the_same_story_again() -> None:
    first, second = Story(5), Story(5)
    first.run()
    second.run()
    assert first.events == second.events
    assert first.loop.time() == second.loop.time()


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.timeout(180)
def test_a_bug_put_in_on_purpose_is_found(name: str) -> None:
    end = time.monotonic() + MUTANT_SECONDS
    with MUTANTS[name]():
        for seed in itertools.count(1):
            assert time.monotonic() < end, f"{seed} stories, and nobody noticed"
            try:
                Story(seed).run()
            except StoryFailed:
                return
