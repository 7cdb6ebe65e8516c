"""The rules of `controller/partitions.py`: examples, and invariants over random transitions."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.image import NO_LEADER, PartitionState
from barnabas.controller.partitions import Election, Transition, next_state


def step(alive: tuple[int, ...], min_isr: int = 1, **changes: object) -> Transition:
    return Transition(lambda broker: broker in alive, min_isr, **changes)  # type: ignore[arg-type]


FULL = PartitionState((1, 2, 3), (1, 2, 3), 1, leader_epoch=5, partition_epoch=9)


def test_no_change_returns_the_same_state() -> None:
    assert next_state(FULL, step((1, 2, 3))) is FULL


def test_an_isr_change_gives_a_new_partition_epoch_and_keeps_the_leader_epoch() -> None:
    state = next_state(FULL, step((1, 2, 3), isr=(1, 2)))
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1, 2), 1, 5, 10)


def test_a_lost_leader_is_followed_by_the_first_replica_of_the_isr() -> None:
    state = next_state(FULL, step((2, 3), isr=(2, 3)))
    assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (2, (2, 3), 6, 10)


def test_a_replica_outside_the_isr_does_not_lead() -> None:
    partition = PartitionState((1, 2), (1,), 1)
    state = next_state(partition, step((2,), isr=()))
    assert state.leader == NO_LEADER


def test_the_last_member_of_an_isr_waits_in_the_elr_and_leads_again_when_it_is_back() -> None:
    lost = next_state(PartitionState((1, 2), (1,), 1), step((2,), isr=()))
    assert (lost.leader, lost.isr, lost.elr, lost.last_known_elr) == (NO_LEADER, (), (1,), (1,))
    back = next_state(lost, step((1, 2)))
    assert (back.leader, back.isr, back.elr, back.last_known_elr) == (1, (1,), (), ())
    assert back.leader_epoch == lost.leader_epoch + 1


def test_replica_leaving_an_isr_below_the_minimum_is_eligible_until_the_isr_is_large_enough() -> None:
    shrunk = next_state(FULL, step((1, 2), 2, isr=(1, 2)))
    assert shrunk.elr == ()
    below = next_state(shrunk, step((1,), 2, isr=(1,)))
    assert (below.isr, below.elr) == ((1,), (2,))
    assert next_state(below, step((1, 3), 2, isr=(1, 3))).elr == ()


def test_an_eligible_replica_takes_over_when_the_isr_is_empty() -> None:
    below = PartitionState((1, 2, 3), (1,), 1, elr=(2,))
    state = next_state(below, step((2, 3), 2, isr=()))
    assert (state.leader, state.isr, state.elr) == (2, (2,), (1,))


def test_replica_after_an_unclean_stop_is_neither_in_sync_nor_eligible() -> None:
    partition = PartitionState((1, 2), (1,), 1)
    state = next_state(partition, step((), stopped_uncleanly=(1,)))
    assert (state.isr, state.elr, state.last_known_elr, state.leader) == ((), (), (1,), NO_LEADER)


def test_last_known_leader_takes_over_with_an_empty_elr() -> None:
    nobody = PartitionState((1, 2), (), NO_LEADER, 3, last_known_elr=(1,))
    assert next_state(nobody, step((2,))) is nobody
    state = next_state(nobody, step((1, 2)))
    assert (state.leader, state.isr, state.last_known_elr, state.leader_epoch) == (1, (1,), (), 4)


def test_unclean_election_elects_any_live_replica() -> None:
    lost = PartitionState((1, 2, 3), (), NO_LEADER, elr=(1,), last_known_elr=(1,))
    assert next_state(lost, step((3,))).leader == NO_LEADER
    state = next_state(lost, step((3,), election=Election.UNCLEAN))
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (3, (3,), (), ())


def test_preferred_election_elects_the_first_replica() -> None:
    partition = PartitionState((1, 2), (2, 1), 2, leader_epoch=1)
    assert next_state(partition, step((1, 2))) is partition
    state = next_state(partition, step((1, 2), election=Election.PREFERRED))
    assert (state.leader, state.leader_epoch) == (1, 2)
    assert next_state(partition, step((2,), election=Election.PREFERRED)) is partition


def test_a_reassignment_is_over_when_all_new_replicas_are_in_sync() -> None:
    moving = next_state(FULL, step((1, 2, 3, 4), replicas=(4, 2, 1, 3), adding=(4,), removing=(1, 3)))
    assert moving.replicas == (4, 2, 1, 3)
    assert moving.leader_epoch == FULL.leader_epoch
    done = next_state(moving, step((1, 2, 3, 4), isr=(1, 2, 3, 4)))
    assert (done.replicas, done.isr, done.adding_replicas, done.removing_replicas) == ((4, 2), (2, 4), (), ())
    assert done.leader == 4
    assert done.leader_epoch == moving.leader_epoch + 1


def test_new_leader_epoch_can_be_requested() -> None:
    state = next_state(FULL, step((1, 2, 3), bump_leader_epoch=True))
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 6, 10)


BROKERS = st.integers(1, 4)
SETS = st.lists(BROKERS, unique=True, max_size=4).map(tuple)


@st.composite
def walks(draw: st.DrawFn) -> list[PartitionState]:
    """States of a partition while brokers start, stop and crash, and its ISR changes."""
    replicas = draw(st.lists(BROKERS, unique=True, min_size=1, max_size=4).map(tuple))
    states = [PartitionState(replicas, replicas, replicas[0])]
    for _ in range(draw(st.integers(1, 12))):
        before = states[-1]
        alive = draw(SETS)
        wanted = tuple(broker for broker in draw(SETS) if broker in replicas and broker in alive)
        # A leader never proposes an ISR without itself; without one the ISR only loses members.
        if before.leader in alive:
            isr = tuple(dict.fromkeys((before.leader, *wanted)))
        else:
            isr = tuple(broker for broker in before.isr if broker in alive)
        crashed = tuple(broker for broker in draw(SETS) if broker not in alive)
        min_isr = draw(st.integers(1, len(replicas)))
        states.append(next_state(before, step(alive, min_isr, isr=isr, stopped_uncleanly=crashed)))
    return states


@given(walks())
def test_a_leader_is_always_a_member_of_the_isr(states: list[PartitionState]) -> None:
    for state in states:
        assert state.leader == NO_LEADER or state.leader in state.isr


@given(walks())
def test_isr_and_elr_are_disjoint_sets_of_replicas(states: list[PartitionState]) -> None:
    for state in states:
        assert set(state.isr) | set(state.elr) <= set(state.replicas)
        assert not set(state.isr) & set(state.elr)


@given(walks())
def test_epochs_rise_with_every_change_and_only_then(states: list[PartitionState]) -> None:
    for before, after in pairwise(states):
        if after is before:
            continue
        assert after.partition_epoch == before.partition_epoch + 1
        assert (after.leader_epoch > before.leader_epoch) == (after.leader != before.leader)


@given(walks())
def test_a_partition_without_isr_and_elr_remembers_its_last_leader(states: list[PartitionState]) -> None:
    for state in states:
        if not state.isr and not state.elr:
            assert len(state.last_known_elr) == 1
