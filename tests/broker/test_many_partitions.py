"""Creating, changing and deleting a thousand partitions does not block other clients."""

from __future__ import annotations

import gc

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.broker import main as collector
from barnabas.cluster.deltas import TopicCreated
from barnabas.cluster.image import EMPTY_IMAGE, PartitionState, TopicState
from barnabas.common.types import new_uuid
from barnabas.testing import EmbeddedBroker
from tests.support.extremes import Steps, sparing

PARTITIONS = 1000
MAX_STEP = 0.020


def test_no_step_of_the_loop_is_long_while_a_thousand_partitions_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sparing(), EmbeddedBroker() as broker:
        steps = Steps(monkeypatch)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.list_topics(timeout=60)
        steps.restart()
        admin.create_topics([NewTopic("many", PARTITIONS, 1)])["many"].result(60)
        created, steps.longest = steps.longest, 0.0
        assert len(admin.list_topics("many", timeout=60).topics["many"].partitions) == PARTITIONS
        described, steps.longest = steps.longest, 0.0
        admin.delete_topics(["many"])["many"].result(60)
        assert max(created, described, steps.longest) < MAX_STEP, (
            f"creation {created * 1000:.0f} ms, description {described * 1000:.0f} ms, "
            f"deletion {steps.longest * 1000:.0f} ms"
        )


def test_long_lived_objects_are_frozen_only_after_a_large_change() -> None:
    partition = PartitionState((1,), (1,), 1, 0, 0)
    before = gc.get_freeze_count()
    try:
        collector.keep_many(EMPTY_IMAGE, [TopicCreated(TopicState("few", new_uuid(), (partition,) * 3))])
        assert gc.get_freeze_count() == before
        collector.keep_many(EMPTY_IMAGE, [TopicCreated(TopicState("many", new_uuid(), (partition,) * 100))])
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
