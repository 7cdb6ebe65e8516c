"""Instances of producers, and which one of them a transactional id belongs to now."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.errors import ErrorCode, KafkaError
from barnabas.transactions.transaction import LAST_EPOCH, Transaction


class Instance(NamedTuple):
    """An instance of a producer, as its requests name it."""

    producer_id: int
    epoch: int


def check_present(known: Transaction, instance: Instance) -> None:
    """Is this the latest instance? The epoch above the last one is for fencing: nobody was ever given it."""
    if instance.producer_id != known.producer_id:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{known.transactional_id} belongs to producer {known.producer_id}, not {instance.producer_id}",
        )
    if instance.epoch != known.epoch or instance.epoch > LAST_EPOCH:
        raise fenced(known, instance)


def fenced(known: Transaction, instance: Instance) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"producer {instance.producer_id} with epoch {instance.epoch} is not the latest instance of "
        f"{known.transactional_id}: another one has taken over, or its transaction has timed out",
    )
