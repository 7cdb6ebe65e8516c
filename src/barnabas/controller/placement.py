"""Replica placement of new partitions.

The first replica is the preferred leader, so leaders are spread first. Replicas of one partition avoid
sharing a machine, then a rack (never a node); then a topic's replicas are spread evenly, then those of all topics.
Placement is deterministic: the same image gives the same result, which the simulator relies on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from barnabas.cluster import node_of
from barnabas.cluster.image import BrokerState, MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError


def place_replicas(
    brokers: Collection[BrokerState],
    partitions: int,
    replication_factor: int,
    load: Mapping[int, int] | None = None,
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, preferred leader first; `load` counts existing replicas."""
    _check_enough_brokers(brokers, replication_factor)
    placer = _Placer(brokers, load or {})
    return [placer.next_partition(replication_factor) for _ in range(partitions)]


def replica_load(image: MetadataImage) -> Counter[int]:
    load: Counter[int] = Counter()
    for _, _, partition in image.partitions():
        load.update(partition.replicas)
    return load


def _check_enough_brokers(brokers: Collection[BrokerState], replication_factor: int) -> None:
    nodes = len(set(map(node_of, brokers)))
    if replication_factor > nodes:
        on_nodes = f" on {nodes} node(s)" if nodes < len(brokers) else ""
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s){on_nodes} are registered.",
        )
    if not any(broker.can_lead for broker in brokers):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")


class _Placer:
    """Counts new replicas per broker, and places the next partition on the least loaded."""

    def __init__(self, brokers: Collection[BrokerState], load: Mapping[int, int]) -> None:
        self._brokers = sorted(brokers, key=lambda broker: broker.id)
        self._load = load
        self._leads = dict.fromkeys((broker.id for broker in self._brokers), 0)
        self._holds = self._leads.copy()

    def next_partition(self, replication_factor: int) -> tuple[int, ...]:
        leader = min((broker for broker in self._brokers if broker.can_lead), key=self._leader_cost)
        self._leads[leader.id] += 1
        chosen = [leader]
        free = [broker for broker in self._brokers if node_of(broker) != node_of(leader)]
        while len(chosen) < replication_factor:
            follower = min(free, key=self._cost_beside(chosen))
            chosen.append(follower)
            free = [broker for broker in free if node_of(broker) != node_of(follower)]
        for broker in chosen:
            self._holds[broker.id] += 1
        return tuple([broker.id for broker in chosen])

    def _leader_cost(self, broker: BrokerState) -> tuple[int, ...]:
        return self._leads[broker.id], self._holds[broker.id], self._load.get(broker.id, 0)

    def _cost_beside(self, chosen: list[BrokerState]) -> Callable[[BrokerState], tuple[int, ...]]:
        """The cost of a broker as the next replica, most important criterion first."""
        hosts = [broker.host for broker in chosen if broker.host]
        racks = [broker.rack for broker in chosen if broker.rack is not None]

        def cost(broker: BrokerState) -> tuple[int, ...]:
            # A broker that is down gets a replica only as the last resort; it catches up later.
            down = not broker.can_lead
            shared_hosts, shared_racks = hosts.count(broker.host), racks.count(broker.rack or "")
            return down, shared_hosts, shared_racks, self._holds[broker.id], self._load.get(broker.id, 0)

        return cost
