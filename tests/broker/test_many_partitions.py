"""A thousand partitions come, change and go while everybody else is still answered."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.broker import garbage_collector as collector
from barnabas.cluster.deltas import TopicCreated
from barnabas.cluster.image import EMPTY_IMAGE, PartitionState, TopicState
from barnabas.testing import EmbeddedBroker
from barnabas.types import new_uuid

PARTITIONS = 1000
LONGEST_STEP = 0.020


class Steps:
    """The longest that the loops of this process have run without letting go, in seconds of their thread's CPU: not
    what a busy machine adds to it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.longest = 0.0
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self.longest = max(self.longest, time.thread_time() - began)

        patch.setattr(asyncio.Handle, "_run", timed)


@pytest.fixture
def sparing() -> Iterator[None]:
    """The collector as it is in a process that is a broker."""
    before = gc.get_threshold()
    collector.collect_rarely()
    collector.keep_all()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("sparing")
def test_no_step_of_the_loop_is_long_while_a_thousand_partitions_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with EmbeddedBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.list_topics(timeout=60)
        steps = Steps(monkeypatch)
        admin.create_topics([NewTopic("many", PARTITIONS, 1)])["many"].result(60)
        created, steps.longest = steps.longest, 0.0
        assert len(admin.list_topics("many", timeout=60).topics["many"].partitions) == PARTITIONS
        described, steps.longest = steps.longest, 0.0
        admin.delete_topics(["many"])["many"].result(60)
        assert max(created, described, steps.longest) < LONGEST_STEP, (
            f"creation {created * 1000:.0f} ms, description {described * 1000:.0f} ms, "
            f"deletion {steps.longest * 1000:.0f} ms"
        )


def test_what_stays_is_kept_from_the_collector_after_a_large_change_only() -> None:
    partition = PartitionState((1,), (1,), 1, 0, 0)
    before = gc.get_freeze_count()
    try:
        collector.keep_many(EMPTY_IMAGE, [TopicCreated(TopicState("few", new_uuid(), (partition,) * 3))])
        assert gc.get_freeze_count() == before
        collector.keep_many(EMPTY_IMAGE, [TopicCreated(TopicState("many", new_uuid(), (partition,) * 100))])
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
