"""Errors for partitions without a local leader, as in Kafka (ReplicaManager.getPartitionOrError)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.needs import led_partition


def broker(*, found: Any = None, missing: ErrorCode = ErrorCode.NONE, is_known: bool = False) -> Any:
    replicas = SimpleNamespace(find=lambda topic, index: found, why_missing=lambda *_: missing)
    return SimpleNamespace(
        replicas=replicas,
        image=SimpleNamespace(partition=lambda topic, index: "somewhere" if is_known else None),
    )


@pytest.mark.parametrize(
    ("missing", "is_known", "expected"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.KAFKA_STORAGE_ERROR, True, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_partition_that_is_not_here(missing: ErrorCode, is_known: bool, expected: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        led_partition(broker(missing=missing, is_known=is_known), "orders", 0)
    assert refused.value.code is expected


def test_a_partition_that_another_broker_leads() -> None:
    follower = SimpleNamespace(leadership_error=lambda epoch: ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(KafkaError) as refused:
        led_partition(broker(found=follower), "orders", 0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_that_is_led_here() -> None:
    leader: Any = SimpleNamespace(leadership_error=lambda epoch: ErrorCode.NONE)
    assert led_partition(broker(found=leader), "orders", 0) is leader
