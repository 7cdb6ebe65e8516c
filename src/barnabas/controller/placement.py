"""On which brokers the replicas of new partitions go.

The first replica is the preferred leader, so leaders are spread first. Replicas of one partition avoid
sharing a machine, then a rack; then a topic's replicas are spread evenly, then those of all topics.
Nothing is random: the same image gives the same placement, which the simulator relies on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from barnabas.cluster.image import BrokerState, MetadataImage
from barnabas.errors import ErrorCode, KafkaError


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
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered.",
        )
    if not any(broker.can_lead for broker in brokers):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")


class _Placer:
    def __init__(self, brokers: Collection[BrokerState], load: Mapping[int, int]) -> None:
        self._brokers = sorted(brokers, key=lambda broker: broker.id)
        self._load = load
        self._leads: Counter[int] = Counter()
        self._holds: Counter[int] = Counter()

    def next_partition(self, replication_factor: int) -> tuple[int, ...]:
        leader = min((broker for broker in self._brokers if broker.can_lead), key=self._leader_cost)
        chosen = [leader]
        self._leads[leader.id] += 1
        while len(chosen) < replication_factor:
            free = [broker for broker in self._brokers if broker not in chosen]
            chosen.append(min(free, key=lambda broker: self._follower_cost(broker, chosen)))
        self._holds.update(broker.id for broker in chosen)
        return tuple(broker.id for broker in chosen)

    def _leader_cost(self, broker: BrokerState) -> tuple[int, ...]:
        return self._leads[broker.id], self._holds[broker.id], self._load.get(broker.id, 0)

    def _follower_cost(self, broker: BrokerState, chosen: list[BrokerState]) -> tuple[int, ...]:
        # A broker that is down gets a replica only when there is no other; it catches up later.
        return (
            not broker.can_lead,
            sum(bool(broker.host) and broker.host == other.host for other in chosen),
            sum(broker.rack is not None and broker.rack == other.rack for other in chosen),
            self._holds[broker.id],
            self._load.get(broker.id, 0),
        )
