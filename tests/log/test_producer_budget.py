"""All partitions of a broker share a limit of remembered producers."""

from __future__ import annotations

from barnabas.log.producer_budget import ProducerBudget
from barnabas.log.producers import ProducerStates
from barnabas.records.batch import BatchHeader


def write(states: ProducerStates, producer_id: int, offset: int, *, attributes: int = 0) -> None:
    header = BatchHeader(offset, 100, 0, 2, 0, attributes, 0, 0, 0, producer_id, 0, 0, 1)
    states.remember(header, offset, now_ms=0)


def partitions(count: int, limit: int) -> tuple[ProducerBudget, list[ProducerStates]]:
    states = [ProducerStates() for _ in range(count)]
    budget = ProducerBudget(limit, lambda: states)
    for each in states:
        budget.watch(each)
    return budget, states


def test_a_flood_of_producer_ids_over_many_partitions_stays_within_the_bound() -> None:
    budget, states = partitions(10, 100)
    for number in range(5_000):
        write(states[number % 10], number, number)
        assert budget.count() <= 100
    assert budget.forgotten >= 4_900


def test_longest_idle_producers_of_the_largest_partition_are_dropped_first() -> None:
    _, (quiet, flooded) = partitions(2, 100)
    for number in range(10):
        write(quiet, number, number)
    for number in range(1000, 1500):
        write(flooded, number, number)
    assert len(quiet) == 10
    assert flooded.get(1499) is not None
    assert flooded.get(1000) is None


def test_a_producer_that_was_forgotten_may_go_on_with_its_sequence() -> None:
    _, (states,) = partitions(1, 10)
    write(states, 1, 0)
    for number in range(100, 200):
        write(states, number, number)
    header = BatchHeader(0, 100, 0, 2, 0, 0, 0, 0, 0, 1, 0, 5, 1)
    assert states.get(1) is None
    assert states.check(header) is None


def test_open_transactions_are_not_forgotten() -> None:
    _, (states,) = partitions(1, 10)
    for number in range(50):
        write(states, number, number, attributes=0x10)
    assert len(states.open_transactions) == len(states) == 50


def test_counting_in_earnest_is_rare() -> None:
    states = [ProducerStates()]
    looks = 0

    def all_states() -> list[ProducerStates]:
        nonlocal looks
        looks += 1
        return states

    budget = ProducerBudget(1000, all_states)
    budget.watch(states[0])
    for number in range(10_000):
        write(states[0], number, number)
    assert looks <= 3 * 10_000 / (1000 / 20)
