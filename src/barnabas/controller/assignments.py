"""Checks of replica lists that people write themselves (create, grow, reassign)."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError


def check_assignment(image: MetadataImage, replicas: Sequence[int], expected: int | None = None) -> None:
    """`expected` is the replication factor that the topic's other partitions have."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker_id}, "
                "but no such broker is registered."
            )
        if broker_id == previous:
            raise _invalid(f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if expected is not None and len(replicas) != expected:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), "
            f"but this is not consistent with previous partitions, which have {expected} replica(s)."
        )


def new_partition(image: MetadataImage, index: int, replicas: Sequence[int]) -> PartitionState:
    """The first state of a partition: those replicas that are up form the ISR, the first of them leads."""
    isr = tuple(broker_id for broker_id in replicas if image.can_lead(broker_id))
    if not isr:
        raise _invalid(
            f"All brokers specified in the manual partition assignment for partition {index} "
            "are fenced or in controlled shutdown."
        )
    return PartitionState(tuple(replicas), isr, isr[0])


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
