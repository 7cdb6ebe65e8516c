"""Nodes with several processes: transfers of partitions between them, and changes of their number.

Process k of node n is broker n + 1000 k. The processes share their log dirs, so a transfer replaces one broker id by
another, and no record is copied: the old process closes the log, and the new one opens it (`replication/transfers`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

import msgspec

from barnabas.cluster import broker_of, node_of, number_of
from barnabas.cluster.deltas import BrokerRemoved, Delta, FeatureFinalized, PartitionChanged
from barnabas.cluster.features import METADATA_VERSION, PROCESSES_LEVEL, level_of
from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.controller.partitions import Transition, election_for, next_state

TRANSFERS_AT_ONCE = 500
"""In one entry of the metadata log."""


def finalize_processes(image: MetadataImage) -> Decided[None]:
    """Raise the metadata level before the first process of a node is registered: an older version would take the
    partitions of other processes for strays."""
    if level_of(image) >= PROCESSES_LEVEL:
        return [], None
    return [FeatureFinalized(METADATA_VERSION, PROCESSES_LEVEL)], None


def transfer(
    image: MetadataImage, targets: Mapping[TopicPartition, tuple[int, int]], policy: ControllerPolicy
) -> list[Delta]:
    """Replace a broker by another process of its node: (old, new) by partition."""
    deltas: list[Delta] = []
    for tp, (old, new) in targets.items():
        topic, state = image.topics.get(tp.topic), image.partition(*tp)
        if topic is None or state is None or old not in state.replicas:
            continue
        min_isr = policy.min_isr(image, tp.topic, len(state.replicas))
        step = Transition(image.can_lead, min_isr, election_for(image, policy, tp.topic))
        renamed = _renamed(state, old, new)
        after = one_epoch_up(state, renamed, next_state(renamed, step))
        deltas.append(PartitionChanged(topic.topic_id, tp.partition, after))
    return deltas


def one_epoch_up(before: PartitionState, renamed: PartitionState, after: PartitionState) -> PartitionState:
    """One step of the epochs for both, the replacement of brokers and what followed from it. The leader epoch rises: a
    new process leads, and writes to the log."""
    if renamed is before:
        return after
    return msgspec.structs.replace(
        after, leader_epoch=before.leader_epoch + 1, partition_epoch=before.partition_epoch + 1
    )


def with_siblings(image: MetadataImage, state: PartitionState, target: Collection[int]) -> PartitionState:
    """The state with each replica that is not in the target replaced by another process of its node that is."""
    nodes = {node_of(image.brokers[each]): each for each in target if each in image.brokers}
    for old in state.replicas:
        known = image.brokers.get(old)
        new = nodes.get(node_of(known)) if known is not None and known.node >= 0 else None
        if new is not None and new not in state.replicas:
            state = _renamed(state, old, new)
    return state


def _renamed(state: PartitionState, old: int, new: int) -> PartitionState:
    def names(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new if each == old else each for each in ids)

    return msgspec.structs.replace(
        state,
        replicas=names(state.replicas),
        isr=names(state.isr),
        leader=new if state.leader == old else state.leader,
        adding_replicas=names(state.adding_replicas),
        removing_replicas=names(state.removing_replicas),
        elr=names(state.elr),
        last_known_elr=names(state.last_known_elr),
    )


# -- Fewer processes -----------------------------------------------------------------------------------


def replace_gone(image: MetadataImage, node: int, count: int, policy: ControllerPolicy) -> Decided[int]:
    """Transfer the partitions of processes that the node has no more, and remove those brokers: process k is replaced
    by process k mod `count`. The result is the number of partitions."""
    dead = {
        each.id: broker_of(node, number_of(each.id, node) % count)
        for each in image.brokers.values()
        if node_of(each) == node and each.id != node and number_of(each.id, node) >= count
    }
    targets = {}
    for topic, index, state in image.partitions():
        for broker_id in state.replicas:
            if broker_id in dead:
                targets[TopicPartition(topic.name, index)] = broker_id, dead[broker_id]
    return [*transfer(image, targets, policy), *map(BrokerRemoved, dead)], len(targets)


# -- More processes ------------------------------------------------------------------------------------


def spread(image: MetadataImage, node: int, count: int, policy: ControllerPolicy) -> Decided[int]:
    """Transfers that make the processes of a node even, first each topic and then all of them; at most
    TRANSFERS_AT_ONCE. The result is the number of transfers."""
    ids = [broker_of(node, k) for k in range(count)]
    held = {
        TopicPartition(topic.name, index): broker_id
        for topic, index, state in image.partitions()
        for broker_id in state.replicas
        if broker_id in ids
    }
    moves = dict(_even(held, ids))
    chosen = dict(list(moves.items())[:TRANSFERS_AT_ONCE])
    targets = {tp: (held[tp], new) for tp, new in chosen.items()}
    return transfer(image, targets, policy), len(targets)


def _even(held: Mapping[TopicPartition, int], ids: Collection[int]) -> Iterator[tuple[TopicPartition, int]]:
    """The new process of each partition that moves."""
    by_topic: dict[str, dict[int, list[TopicPartition]]] = defaultdict(lambda: {each: [] for each in ids})
    for tp, broker_id in held.items():
        by_topic[tp.topic][broker_id].append(tp)
    for each in by_topic.values():
        _even_out(each)
    totals = Counter({each: sum(len(topic[each]) for topic in by_topic.values()) for each in ids})
    for topic in by_topic.values():
        _move_extras(topic, totals)
    for topic in by_topic.values():
        for broker_id, partitions in topic.items():
            yield from ((tp, broker_id) for tp in partitions if held[tp] != broker_id)


def _even_out(topic: dict[int, list[TopicPartition]]) -> None:
    """Move partitions until no process has two more than another."""
    while True:
        largest, smallest = (
            max(topic, key=lambda each: len(topic[each])),
            min(topic, key=lambda each: len(topic[each])),
        )
        if len(topic[largest]) - len(topic[smallest]) <= 1:
            return
        topic[smallest].append(topic[largest].pop())


def _move_extras(topic: dict[int, list[TopicPartition]], totals: Counter[int]) -> None:
    """Move what a process has more than others of this topic to where there is least in total."""
    while True:
        fewest = min(len(partitions) for partitions in topic.values())
        with_extra = [each for each, partitions in topic.items() if len(partitions) > fewest]
        without = [each for each, partitions in topic.items() if len(partitions) == fewest]
        if not with_extra:
            return
        largest, smallest = max(with_extra, key=totals.__getitem__), min(without, key=totals.__getitem__)
        if totals[largest] - totals[smallest] <= 1:
            return
        topic[smallest].append(topic[largest].pop())
        totals[largest] -= 1
        totals[smallest] += 1


# -- Checks --------------------------------------------------------------------------------------------


def check_ids(image: MetadataImage, node: int, count: int) -> None:
    """Raise KafkaError if a process would get the id of another broker."""
    replicas = {each for _, _, state in image.partitions() for each in state.replicas}
    for k in range(1, count):
        broker_id = broker_of(node, k)
        known = image.brokers.get(broker_id)
        is_ours = known is not None and node_of(known) == node
        if not is_ours and (known is not None or broker_id in replicas):
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"process {k} of node {node} would be broker {broker_id}, which is another broker of this cluster: "
                "use another node.id, or fewer processes",
            )
