"""Stories of a simulated cluster: none may lose a record, and a bug put in on purpose must not go unnoticed."""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest

from barnabas.testing.simulation.mutants import MUTANTS
from barnabas.testing.simulation.scenario import Story, StoryFailed
from barnabas.testing.simulation.telling import _tell, tell

# Always the same stories, and as many of them as the time allows; `make simulate` tells as many others as one likes.
SECONDS = float(os.environ.get("SIMULATION_SECONDS", "60"))
FIRST_SEED, LAST_SEED = 1000, 9999
MUTANT_STORIES = 200

# Each of these ended badly once, in the stories that were told then: a lost answer about the high watermark, a follower
# that was eligible too late, a leader that had not counted who came before it was elected, a broker that could not stop
# or forgot a loss of power, a late word of an earlier life, a request that named and forgot, records that had been cut
# and came back. A seed tells another story whenever the code asks chance for something else or in another order, last
# when the network learnt to carry what a dead process has sent: today these are stories like any others.
ONCE_BAD = (1, 2, 7, 54, 73, 104, 138, 10111, 20072, 20075, 20187, 51571)


@pytest.mark.parametrize("seed", ONCE_BAD)
def test_a_story_that_once_ended_badly_ends_well(seed: int) -> None:
    Story(seed).run()


@pytest.mark.timeout(300)
def test_no_story_loses_a_record_takes_one_back_or_has_two_leaders() -> None:
    assert tell(FIRST_SEED, LAST_SEED, seconds=SECONDS) > 0


def test_what_a_child_has_found_reaches_whoever_let_it_tell() -> None:
    with MUTANTS["divergence_goes_unnoticed"](), pytest.raises(StoryFailed) as found:
        _tell(range(1, MUTANT_STORIES), deadline=float("inf"))
    assert found.value.reason
    assert found.value.events


def test_stories_have_transactions_of_either_kind_and_processes_that_stop() -> None:
    stories = [Story(seed) for seed in range(1, 9)]
    for story in stories:
        story.run()
    assert any(story.cast.trader.committed for story in stories)
    assert any(story.cast.trader.aborted for story in stories)
    assert any("does nothing for" in event for story in stories for event in story.events)


def test_a_seed_tells_the_same_story_again() -> None:
    first, second = Story(5), Story(5)
    first.run()
    second.run()
    assert first.events == second.events
    assert first.stage.loop.time() == second.stage.loop.time()


@pytest.mark.parametrize("name", [None, *MUTANTS])
def test_checks_that_skip_what_has_not_changed_find_what_thorough_ones_find(name: str | None) -> None:
    with MUTANTS[name]() if name else nullcontext():
        for seed in range(1, 6):
            assert _told(Story(seed)) == _told(Story(seed, thorough=True))


def _told(story: Story) -> tuple[str, float, list[str]]:
    try:
        story.run()
    except StoryFailed as failure:
        return failure.reason, story.stage.loop.time(), story.events
    return "", story.stage.loop.time(), story.events


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.timeout(180)
def test_a_bug_put_in_on_purpose_is_found(name: str) -> None:
    with MUTANTS[name]():
        for seed in range(1, MUTANT_STORIES):
            try:
                Story(seed).run()
            except StoryFailed:
                return
    pytest.fail(f"{MUTANT_STORIES} stories, and nobody noticed")
