"""A driver dies at any step, or resumes late: every row is written once, and no transaction stays open."""

import itertools
import json
import os
import random

import pytest

from barnabas.spark.sink.driver import TransactionalIds, own_names
from barnabas.spark.sink.protocol import (
    Abort,
    Batch,
    ClaimSink,
    LostBatchError,
    Open,
    Read,
    ReadUnclaimed,
    SupersededError,
    TornBatchError,
    TornBatchPolicy,
    Write,
    commit,
    give_up,
    plan,
    tidy,
)
from barnabas.spark.sink.state import (
    REMEMBERED,
    SinkState,
    TaskTransaction,
    decode_state,
    driver_id,
    encode_state,
    run_of,
    task_id,
)
from tests.spark.sink.model import SINK, Cluster, Driver, expected_rows

BATCHES = 3


class World:
    """A cluster, Spark's checkpoint, and drivers."""

    def __init__(self, inline: bool) -> None:
        self.cluster = Cluster()
        self.checkpoint: set[int] = set()
        self._inline = inline
        self._drivers = 0

    def start(self) -> Driver:
        self._drivers += 1
        return Driver(self.cluster, f"driver-{self._drivers}", self.checkpoint, BATCHES, self._inline)

    def finish(self) -> None:
        """Restart until a driver gets through, as a supervisor does."""
        for _ in range(5):
            driver = self.start()
            driver.run()
            if driver.failure is None:
                return
        raise AssertionError(f"no driver gets through: {driver.failure}")

    def check(self) -> None:
        assert sorted(self.cluster.topic) == expected_rows(BATCHES)
        assert self.cluster.open_transactions() == []


def count_steps(inline: bool) -> int:
    driver, steps = World(inline).start(), 0
    while not driver.ended:
        driver.step()
        steps += 1
    return steps


@pytest.fixture(params=[False, True], ids=["transactions", "rows handed over"])
def inline(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_query_that_nothing_happens_to_writes_every_row_once(inline: bool) -> None:
    world = World(inline)
    world.start().run()
    world.check()


def test_a_driver_may_die_at_any_step(inline: bool) -> None:
    for steps in range(count_steps(inline) + 1):
        world = World(inline)
        driver = world.start()
        for _ in range(steps):
            driver.step()
        world.finish()
        world.check()


def test_two_drivers_may_die_one_after_the_other_at_any_two_steps(inline: bool) -> None:
    total = count_steps(inline)
    for first in range(total):
        for second in range(total + 20):
            world = World(inline)
            for steps in (first, second):
                driver = world.start()
                for _ in range(steps):
                    if not driver.ended:
                        driver.step()
            world.finish()
            world.check()


def test_a_driver_that_was_replaced_may_wake_up_at_any_step(inline: bool) -> None:
    """The first stops at one step, another runs up to some step, then the first continues to its end."""
    total = count_steps(inline)
    for first in range(total):
        for second in range(0, total + 20, 2):
            world = World(inline)
            zombie, successor = world.start(), world.start()
            for _ in range(first):
                zombie.step()
            for _ in range(second):
                if not successor.ended:
                    successor.step()
            zombie.run()
            successor.run()
            world.finish()
            world.start().run()
            assert sorted(world.cluster.topic) == expected_rows(BATCHES)


@pytest.mark.parametrize("seed", range(20))
def test_three_drivers_at_once_in_any_order_of_steps(inline: bool, seed: int) -> None:
    for number in range(100):
        chosen = random.Random(seed * 1000 + number)
        world = World(inline)
        drivers = [world.start() for _ in range(3)]
        while any(not driver.ended for driver in drivers):
            driver = chosen.choice([one for one in drivers if not one.ended])
            for _ in range(chosen.choice([1, 1, 2, 5, 10])):
                if not driver.ended:
                    driver.step()
        for driver in drivers:
            assert not isinstance(driver.failure, TornBatchError)
        world.finish()
        assert sorted(world.cluster.topic) == expected_rows(BATCHES)


def test_transactions_of_a_replaced_driver_are_ended_by_its_successor() -> None:
    world = World(inline=False)
    zombie = world.start()
    while not world.cluster.open_transactions():
        zombie.step()
    successor = world.start()
    successor.run()
    assert world.cluster.open_transactions() == []
    zombie.run()
    assert zombie.failure is not None
    world.check()


# -- two queries with one sinkId --------------------------------------------------------------------------


def check_two_queries(world: World, other: set[int], inline: bool) -> None:
    world.finish()
    Driver(world.cluster, "the other again", other, BATCHES, inline, "other").run()
    expected = expected_rows(BATCHES) + expected_rows(BATCHES, "other")
    assert sorted(world.cluster.topic) == sorted(expected)


def test_a_query_comes_back_after_another_one_has_had_the_sink(inline: bool) -> None:
    for steps in range(count_steps(inline)):
        world, other = World(inline), set[int]()
        driver = world.start()
        for _ in range(steps):
            driver.step()
        Driver(world.cluster, "the other", other, BATCHES, inline, "other").run()
        check_two_queries(world, other, inline)


def test_reader_of_another_run_under_an_old_claim_claims_again_before_it_gives_up() -> None:
    """Spark plans in one process and commits in another: this one does not know of the new run."""
    program = commit(Batch(1, "query", run=3))
    assert next(program) == ClaimSink(fresh=False)
    assert program.send(None) == Read()
    assert program.send(SinkState(run=1)) == ClaimSink(fresh=True)
    assert program.send(None) == Read()
    state = SinkState(run=3)
    assert program.send(state) == Write(state.with_decision("query", 1, ()).completed())


def take_turns(drivers: list[Driver], chosen: random.Random) -> None:
    """Some steps of one, some of another, until all have ended."""
    while any(not driver.ended for driver in drivers):
        driver = chosen.choice([one for one in drivers if not one.ended])
        for _ in range(chosen.choice([1, 2, 5, 20])):
            if not driver.ended:
                driver.step()


@pytest.mark.parametrize("seed", range(5))
def test_two_queries_at_once_stop_each_other_and_write_nothing_twice(inline: bool, seed: int) -> None:
    for number in range(100):
        chosen = random.Random(seed * 1000 + number)
        world, other = World(inline), set[int]()
        drivers = [world.start(), Driver(world.cluster, "the other", other, BATCHES, inline, "other")]
        take_turns(drivers, chosen)
        assert not any(isinstance(driver.failure, TornBatchError) for driver in drivers)
        check_two_queries(world, other, inline)


@pytest.mark.parametrize("fails", [False, True], ids=["", "one fails"])
@pytest.mark.parametrize("tidies", [False, True], ids=["", "both tidy up"])
@pytest.mark.parametrize("seed", range(5))
def test_two_queries_with_the_same_owner_are_distinguished_by_their_start(
    inline: bool, seed: int, tidies: bool, fails: bool
) -> None:
    """One Spark, one sinkId, no checkpointLocation: the later one to decide has the sink, and the other stops."""
    stopped = 0
    for number in range(100):
        chosen = random.Random(seed * 1000 + number)
        cluster = Cluster()
        logs: dict[str, set[int]] = {"query": set(), "other": set()}
        drivers = [Driver(cluster, f"start of {q}", logs[q], BATCHES, inline, q, "one", tidies) for q in logs]
        drivers[0].failing = (chosen.choice([0, 2]), 1) if fails else None
        take_turns(drivers, chosen)
        assert not any(isinstance(driver.failure, TornBatchError) for driver in drivers)
        stopped += sum(isinstance(driver.failure, SupersededError) for driver in drivers)
        starts = [state.start for state in cluster.states if state.start]
        changes = sum(before != after for before, after in itertools.pairwise(starts))
        assert changes <= 1  # never reverted
        for query, log in logs.items():
            again = Driver(cluster, f"again {query}", log, BATCHES, inline, query, "one")
            again.run()
            assert again.failure is None
        expected = [row for query in logs for row in expected_rows(BATCHES, query)]
        assert sorted(cluster.topic) == sorted(expected)
    assert stopped


def test_job_that_fails_after_its_decision_leaves_its_parts_to_the_next_attempt() -> None:
    """Some of them may be committed already."""
    decided, straggler = TaskTransaction(task_id(SINK, 3, "a.1"), 5, 1), task_id(SINK, 3, "b.1")
    program = give_up(3)
    assert next(program) == ReadUnclaimed()
    assert program.send((SinkState(run=3, pending=(decided,)), True)) == Open()
    assert program.send([(decided.transactional_id, 3), (straggler, 3)]) == Abort((straggler,))


def test_run_without_open_transactions_continues() -> None:
    """Its processes can use their ids again only in the same run."""
    program = tidy(3)
    assert next(program) == ReadUnclaimed()
    assert program.send((SinkState(run=3), True)) == Open()
    assert program.send([(task_id(SINK, 2, "a.1"), 2)]) == Abort((task_id(SINK, 2, "a.1"),))


# -- attempts of tasks that Spark has given up ----------------------------------------------------------


@pytest.mark.parametrize("late_attempt_of", [(batch, task) for batch in range(BATCHES) for task in range(2)])
def test_late_attempt_cannot_change_the_output_of_another(
    inline: bool, late_attempt_of: tuple[int, int]
) -> None:
    """It continues after any step of the driver, up to any step; then the driver dies or continues."""
    total = count_steps(inline)
    for steps in range(total):
        for late_steps in range(1, 5):
            for dies in (False, True):
                world = World(inline)
                driver = world.start()
                driver.late_attempt_of = late_attempt_of
                for _ in range(steps):
                    driver.step()
                if driver.late is None:
                    continue
                for _ in range(late_steps):
                    next(driver.late, None)
                if not dies:
                    driver.run()
                    assert driver.failure is None
                world.finish()
                assert sorted(world.cluster.topic) == expected_rows(BATCHES)


def test_a_late_attempt_leaves_nothing_open_for_longer_than_the_next_batch() -> None:
    world = World(inline=False)
    driver = world.start()
    driver.late_attempt_of = (0, 1)
    while 0 not in world.checkpoint:
        driver.step()
    assert driver.late is not None
    for _ in driver.late:
        pass
    assert len(world.cluster.open_transactions()) == 1
    driver.run()
    world.check()


def test_a_process_uses_its_ids_again_in_later_batches_of_the_same_start() -> None:
    names = TransactionalIds("1c0ffee")
    first, second = (names.take(SINK, 1, "start", 0) for _ in range(2))
    assert first != second  # both tasks of one batch
    for name in (first, second):
        names.keep(name, SINK, 1, "start", 0)
    assert names.take(SINK, 1, "another", 1) not in (first, second)
    assert names.take(SINK, 2, "start", 1) not in (first, second)
    assert names.take(SINK, 1, "start", 0) not in (first, second)
    assert {names.take(SINK, 1, "start", 1) for _ in range(2)} == {first, second}
    assert names.take(SINK, 1, "start", 2) not in (
        first,
        second,
    )  # whose tasks in batch 1 have not ended well


def test_no_two_processes_have_an_id_in_common() -> None:
    assert own_names() is own_names()
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, own_names().take(SINK, 1, "start", 0).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        expected = pipe.read()
    assert run_of(SINK, expected) == 1
    assert expected.split(".")[0] != own_names().take(SINK, 1, "start", 0).split(".")[0]


# -- the broker's timeout, where there is one -----------------------------------------------------------


def until_decided(world: World, *, committed: int) -> Driver:
    """A driver that dies after its first decision, when so many transactions are committed."""
    driver = world.start()
    while not (world.cluster.states[-1].pending and len(world.cluster.topic) == 2 * committed):
        driver.step()
    return driver


def test_a_batch_whose_transactions_all_timed_out_is_written_again() -> None:
    world = World(inline=False)
    until_decided(world, committed=0)
    for name in world.cluster.open_transactions():
        world.cluster.time_out(name)
    world.finish()
    world.check()


def test_a_batch_of_which_nothing_was_committed_is_written_again_if_only_one_transaction_timed_out() -> None:
    world = World(inline=False)
    until_decided(world, committed=0)
    world.cluster.time_out(world.cluster.open_transactions()[-1])
    world.finish()
    world.check()


def test_a_batch_of_which_a_part_was_committed_stops_the_query_and_is_named() -> None:
    world = World(inline=False)
    until_decided(world, committed=1)
    (late,) = world.cluster.open_transactions()
    world.cluster.time_out(late)
    for _ in range(2):  # and stops again until the policy is set
        driver = world.start()
        driver.run()
        assert isinstance(driver.failure, TornBatchError)
        assert "batch 0 is only partly in the topics" in str(driver.failure)
        assert late in str(driver.failure)


@pytest.mark.parametrize(("torn", "rows"), [(TornBatchPolicy.SKIP, 2), (TornBatchPolicy.RERUN, 6)])
def test_torn_batch_is_handled_by_the_policy_option(torn: TornBatchPolicy, rows: int) -> None:
    world = World(inline=False)
    until_decided(world, committed=1)
    world.cluster.time_out(world.cluster.open_transactions()[0])
    helper = world.start()
    for _ in helper._perform(plan(helper.name, torn)):
        pass
    world.finish()
    assert len([row for row in world.cluster.topic if row.startswith("0-")]) == rows
    assert world.cluster.open_transactions() == []


def test_transactions_ended_before_the_decision_are_detected() -> None:
    world = World(inline=False)
    driver = world.start()
    while len(world.cluster.open_transactions()) < 2:
        driver.step()
    driver.step()
    driver.step()
    world.cluster.time_out(world.cluster.open_transactions()[0])
    driver.run()
    assert isinstance(driver.failure, LostBatchError)
    world.finish()
    world.check()


def test_replaced_driver_gets_an_error() -> None:
    world = World(inline=False)
    zombie = world.start()
    while len(world.cluster.open_transactions()) < 2:
        zombie.step()
    successor = world.start()
    while world.cluster.states[-1].owner != successor.name:
        successor.step()
    zombie.run()
    assert isinstance(zombie.failure, SupersededError)


# -- the state --------------------------------------------------------------------------------------------


def test_the_state_survives_its_encoding() -> None:
    others = (("o", 2), ("r", 9))
    state = SinkState(3, "host/1", "q", 7, (TaskTransaction("s-3-0", 5, 1),), ("p", 6), others, "s2", ("s1",))
    assert decode_state(encode_state(state)) == state


def test_the_state_of_an_earlier_version_is_read() -> None:
    fields = json.loads(encode_state(SinkState(3, "host/1", "q", 7)))
    for name in ("others", "start", "replaced"):
        del fields[name]
    assert decode_state(json.dumps(fields).encode()) == SinkState(3, "host/1", "q", 7)


def test_another_query_counts_its_batches_from_zero() -> None:
    state = SinkState(query="q", decided=5)
    assert state.has("q", 5)
    assert not state.has("q", 6)
    assert not state.has("new", 0)


def test_the_last_batches_of_other_queries_are_remembered() -> None:
    state = SinkState().with_decision("a", 5, ()).completed().with_decision("b", 0, ())
    assert state.has("a", 5)
    assert state.has("b", 0)
    assert state.withdrawn() == SinkState(query="a", decided=5)
    state = state.completed().with_decision("a", 6, ())
    assert (state.has("a", 6), state.has("b", 0), state.has("b", 1)) == (True, True, False)
    assert state.withdrawn().has("b", 0)
    assert not state.withdrawn().has("a", 6)
    assert state.completed().others == (("b", 0),)


def test_not_more_queries_are_remembered_than_are_likely_to_come_back() -> None:
    state = SinkState()
    for number in range(100):
        state = state.with_decision(f"q{number}", 3, ()).completed()
    assert len(state.others) == REMEMBERED
    assert state.has("q99", 3)
    assert state.has("q80", 3)
    assert not state.has("q0", 3)


def test_sinks_with_similar_names_have_distinct_ids() -> None:
    assert run_of(SINK, task_id(SINK, 4, "1c0ffee.2")) == 4
    assert run_of(SINK, task_id(f"{SINK}-4", 4, "1c0ffee.2")) is None
    assert run_of(SINK, driver_id(SINK)) is None
    assert run_of(SINK, "other-1-1c0ffee.1") is None


def test_transactions_opened_by_an_earlier_version_are_found() -> None:
    assert run_of(SINK, task_id(SINK, 4, "2")) == 4
    assert run_of(SINK, task_id(SINK, 4, "rows")) == 4
