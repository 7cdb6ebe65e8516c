"""Transitions of one partition: the next state when its ISR, its replicas or its brokers change.

Kafka's rules with eligible leader replicas (KIP-966):

- A leader comes from the ISR; if that is empty, from the ELR; if that is empty too, the last known leader
  may take over; any other replica only by an unclean election.
- A replica that leaves an ISR that is, or becomes, smaller than min.insync.replicas joins the ELR: it
  missed no acknowledged record. The ELR is cleared once the ISR is large enough.
- A replica that stopped uncleanly may have lost unflushed records, and is neither in the ISR nor in the ELR.
- An uncleanly elected leader is RECOVERING until it sends AlterPartition, which reports its recovery
(KIP-704).
- A new leader, or removed replicas, raise the leader epoch; any change raises the partition epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from barnabas.cluster.deltas import PartitionChanged
from barnabas.cluster.image import NO_LEADER, RECOVERED, RECOVERING, MetadataImage, PartitionState, TopicState
from barnabas.controller.decision import ControllerPolicy


class Election(IntEnum):
    """Kind of election; the first two are the numbers of ElectLeaders."""

    PREFERRED = 0  # the first replica, if it can lead; otherwise as ONLINE
    UNCLEAN = 1  # any live replica, as the last resort
    ONLINE = 2  # keep the leader if it can lead, else the first replica that can


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of a partition; None fields do not change.

    `can_lead` returns True for brokers that are up. `bump_leader_epoch` raises the epoch with the same
    leader.
    `recovered`: the leader has recovered its log.
    """

    can_lead: Callable[[int], bool]
    min_isr: int = 1
    election: Election = Election.ONLINE
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    stopped_uncleanly: tuple[int, ...] = ()
    bump_leader_epoch: bool = False
    recovered: bool = False


def next_state(partition: PartitionState, step: Transition) -> PartitionState:
    """The state after the transition; the same object if nothing changes."""
    target = _with_elr(partition, _finish_reassignment(_wanted(partition, step)), step)
    elected = _elect(partition, target, step)
    replicas_lost = not set(partition.replicas) <= set(elected.replicas)
    if elected.leader != partition.leader or replicas_lost or step.bump_leader_epoch:
        elected = msgspec.structs.replace(elected, leader_epoch=partition.leader_epoch + 1)
    if elected == partition:
        return partition
    return msgspec.structs.replace(elected, partition_epoch=partition.partition_epoch + 1)


def raised(partition: PartitionState, leader_epoch: int) -> PartitionState:
    """The same leader, in an epoch of at least `leader_epoch`."""
    if leader_epoch <= partition.leader_epoch:
        return partition
    return msgspec.structs.replace(
        partition, leader_epoch=leader_epoch, partition_epoch=partition.partition_epoch + 1
    )


def is_untouched(partition: PartitionState) -> bool:
    """True if restored from an object store and not led since: its replicas are identical."""
    known = (*partition.isr, *partition.elr, *partition.last_known_elr)
    return partition.leader == NO_LEADER and partition.partition_epoch == 0 and not known


def is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """True if the transition elected a leader that was neither in the ISR nor in the ELR."""
    if is_untouched(before):
        return False
    return after.leader not in (NO_LEADER, before.leader, *before.isr, *before.elr)


TransitionOf = Callable[[TopicState, PartitionState], Transition | None]


def change_all(image: MetadataImage, transition_of: TransitionOf) -> Iterator[PartitionChanged]:
    """Apply a transition to every partition; those without one, or unchanged by it, give no delta."""
    for topic, index, partition in image.partitions():
        step = transition_of(topic, partition)
        if step is not None and (state := next_state(partition, step)) is not partition:
            yield PartitionChanged(topic.topic_id, index, state, is_unclean(partition, state))


def election_for(image: MetadataImage, policy: ControllerPolicy, topic: str) -> Election:
    """The kind of automatic election: unclean only where a topic allows it."""
    return Election.UNCLEAN if policy.unclean_election_allowed(image, topic) else Election.ONLINE


def _wanted(partition: PartitionState, step: Transition) -> PartitionState:
    isr = partition.isr if step.isr is None else step.isr
    return msgspec.structs.replace(
        partition,
        isr=tuple(broker for broker in isr if broker not in step.stopped_uncleanly),
        replicas=partition.replicas if step.replicas is None else step.replicas,
        adding_replicas=partition.adding_replicas if step.adding is None else step.adding,
        removing_replicas=partition.removing_replicas if step.removing is None else step.removing,
        leader_recovery_state=RECOVERED if step.recovered else partition.leader_recovery_state,
    )


def _finish_reassignment(target: PartitionState) -> PartitionState:
    """Complete a reassignment if all added replicas are in the ISR of those that stay."""
    if not target.being_reassigned:
        return target
    replicas = _without(target.replicas, target.removing_replicas)
    isr = _without(target.isr, target.removing_replicas)
    if not isr or not set(target.adding_replicas) <= set(isr):
        return target
    return msgspec.structs.replace(
        target, replicas=replicas, isr=isr, adding_replicas=(), removing_replicas=()
    )


def _with_elr(partition: PartitionState, target: PartitionState, step: Transition) -> PartitionState:
    if len(target.isr) >= min(step.min_isr, len(target.replicas)):
        return msgspec.structs.replace(target, elr=(), last_known_elr=())
    candidates = dict.fromkeys((*partition.elr, *partition.isr))
    elr = tuple(
        broker
        for broker in candidates
        if broker in target.replicas and broker not in target.isr and broker not in step.stopped_uncleanly
    )
    return msgspec.structs.replace(target, elr=elr)


def _elect(partition: PartitionState, target: PartitionState, step: Transition) -> PartitionState:
    leader = _clean_leader(target, step)
    if leader is not None:
        return _led_cleanly(target, leader, step)
    leader = _unclean_leader(target, step)
    if leader is not None:
        # Records may be lost here; only the new leader is in sync with itself.
        return msgspec.structs.replace(
            target,
            leader=leader,
            isr=(leader,),
            elr=(),
            last_known_elr=(),
            leader_recovery_state=RECOVERED if is_untouched(partition) else RECOVERING,
        )
    return _leaderless(partition, target)


def _clean_leader(target: PartitionState, step: Transition) -> int | None:
    first_choice = target.preferred_leader if step.election is Election.PREFERRED else target.leader
    eligible = target.isr or target.elr
    for broker in (first_choice, target.leader, *target.replicas):
        if broker in eligible and step.can_lead(broker):
            return broker
    return None


def _led_cleanly(target: PartitionState, leader: int, step: Transition) -> PartitionState:
    if leader in target.isr:
        return msgspec.structs.replace(target, leader=leader, last_known_elr=())
    # The minimum may have been lowered to 1 while the partition had no leader: then this leader commits alone.
    elr = _without(target.elr, (leader,)) if step.min_isr > 1 else ()
    return msgspec.structs.replace(target, leader=leader, isr=(leader,), elr=elr, last_known_elr=())


def _unclean_leader(target: PartitionState, step: Transition) -> int | None:
    if not target.isr and not target.elr and len(target.last_known_elr) == 1:
        last_known = target.last_known_elr[0]
        if last_known in target.replicas and step.can_lead(last_known):
            return last_known
    if step.election is not Election.UNCLEAN and not is_untouched(target):
        return None
    return next((broker for broker in target.replicas if step.can_lead(broker)), None)


def _leaderless(partition: PartitionState, target: PartitionState) -> PartitionState:
    last_known = target.last_known_elr
    if not target.isr and partition.leader != NO_LEADER:
        last_known = (partition.leader,)
    return msgspec.structs.replace(target, leader=NO_LEADER, last_known_elr=last_known)


def _without(brokers: tuple[int, ...], unwanted: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker not in unwanted)
