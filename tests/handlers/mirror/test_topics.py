"""AlterMirrors and DescribeMirrors: creation, promotion, reversal and deletion of mirrors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.controller.mirrors import EPOCH_JUMP
from barnabas.protocol.messages import produce, topics
from barnabas.protocol.messages.mirror import (
    AlteredMirrorPartition,
    AlteredMirrorTopic,
    DescribeMirrorsRequest,
    MirrorAction,
    MirrorConfig,
    MirrorState,
)
from barnabas.records.batch import iterate_headers
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.replication.mirrors import Mirrors
from barnabas.testing import EmbeddedBroker
from tests.support.mirrors.target import SOURCE_CLUSTER, TOPIC, Target, batch
from tests.support.waiting import until

PRODUCER = 4711


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def target(broker: EmbeddedBroker) -> Iterator[Target]:
    with Target(broker.port) as asking:
        yield asking


def transactional(base: int, count: int = 1, epoch: int = 0, sequence: int = 0) -> bytes:
    return batch(
        base,
        count,
        epoch,
        producer_id=PRODUCER,
        producer_epoch=3,
        base_sequence=sequence,
        transactional=True,
    )


def produced(target: Target, name: str = TOPIC, /, **more: Any) -> Any:
    data = produce.PartitionProduceData(0, batch(0, 1, **more))
    request = produce.ProduceRequest(None, -1, 5000, [produce.TopicProduceData(name, partition_data=[data])])
    answer: Any = target.connection.ask(request, 12)
    return answer.responses[0].partition_responses[0]


def epochs_of(target: Target, name: str = TOPIC) -> list[tuple[int, int]]:
    batches = target.fetch(target.described(name=name).log_start_offset, name=name)
    return [(header.base_offset, header.leader_epoch) for _, header in iterate_headers(memoryview(batches))]


# -- creating and describing ---------------------------------------------------------------------------


def test_a_mirror_is_created_once_and_grows_with_its_source(target: Target) -> None:
    created = target.create(partitions=2)
    assert target.create(partitions=2).topic_id == created.topic_id
    target.create(partitions=3)
    assert len(target.topic().partitions) == 3
    described = target.describe()
    assert (described.link, described.source_cluster_id, described.source_name) == (
        "dr",
        SOURCE_CLUSTER,
        TOPIC,
    )
    assert (described.state, len(described.partitions)) == (MirrorState.ACTIVE, 3)
    all_told: Any = target.connection.ask(DescribeMirrorsRequest(None), 0)
    assert [each.name for each in all_told.topics] == [TOPIC]


def test_a_mirror_of_something_else_under_the_same_name_is_refused(
    broker: EmbeddedBroker, target: Target
) -> None:
    target.create()
    other = target.alter(MirrorAction.CREATE, source_name="elsewhere", num_partitions=1)
    assert other.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    again = target.alter(MirrorAction.CREATE, source_topic_id=bytes(16), num_partitions=1)
    assert again.error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    broker.create_topic("ordinary")
    ordinary = target.alter(MirrorAction.CREATE, "ordinary", num_partitions=1)
    assert ordinary.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert target.describe("ordinary").error_code == ErrorCode.RESOURCE_NOT_FOUND
    assert target.describe("unknown").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_loops_are_refused(broker: EmbeddedBroker, target: Target) -> None:
    here = broker.broker.cluster_id
    wanted = AlteredMirrorTopic(name=TOPIC, action=MirrorAction.CREATE, source_name=TOPIC, num_partitions=1)
    for loop in ({"source_cluster_id": here}, {"path": ["third", here]}):
        answer = target.alter_all([wanted], **loop).topics[0]
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert "a loop" in answer.error_message


def test_a_mirror_is_never_tiered_before_it_is_promoted(target: Target) -> None:
    answer = target.alter(
        MirrorAction.CREATE,
        num_partitions=1,
        configs=[MirrorConfig("remote.storage.enable", "true")],
    )
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "a mirror cannot be tiered" in answer.error_message


def test_a_mirror_is_deleted_like_any_topic_and_may_come_again(
    broker: EmbeddedBroker, target: Target
) -> None:
    target.create()
    target.append(batch(0))
    target.connection.ask(
        topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(TOPIC)], timeout_ms=5000), 6
    )
    assert not broker.broker.image.mirrors
    target.create()
    assert target.described().log_end_offset == 0


# -- promotion -----------------------------------------------------------------------------------------


def test_promotion_ends_open_transactions_and_makes_the_topic_writable(target: Target) -> None:
    target.create()
    target.append(batch(0, 2), transactional(2, 3), batch(5, 1))
    epoch = target.leader_epoch()
    assert target.alter(MirrorAction.PROMOTE).error_code == 0
    described = target.until_state(MirrorState.STOPPED).partitions[0]
    assert (described.promoted_at, described.promoted_epoch) == (6, 0)
    aborted = described.aborted_transactions
    assert [(each.producer_id, each.producer_epoch, each.first_offset) for each in aborted] == [
        (PRODUCER, 3, 2)
    ]
    assert target.leader_epoch() == epoch + EPOCH_JUMP
    assert described.log_end_offset == 7, "one marker"
    assert target.append(batch(7)).error_code == ErrorCode.POLICY_VIOLATION
    assert produced(target).base_offset == 7
    assert epochs_of(target)[-2:] == [(6, epoch + EPOCH_JUMP), (7, epoch + EPOCH_JUMP)]
    assert target.alter(MirrorAction.PROMOTE).state == MirrorState.STOPPED, "once more is no error"


def test_producers_of_the_source_are_dropped_so_that_their_ids_can_be_reused(
    broker: EmbeddedBroker, target: Target
) -> None:
    target.create()
    idempotent = {"producer_id": 0, "producer_epoch": 5, "base_sequence": 0}
    target.append(batch(0, 1, **idempotent), transactional(1))
    target.alter(MirrorAction.FAILOVER)
    target.until_state(MirrorState.STOPPED)
    ours = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0}
    assert produced(target, **ours).error_code == 0
    broker.restart()
    with Target(broker.port) as again:
        next_one = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 1}
        assert produced(again, **next_one).error_code == 0, "what came behind the promotion is remembered"
        duplicate = produced(again, **next_one)
        assert (duplicate.error_code, duplicate.base_offset) == (0, 4)


def test_a_failed_mirror_is_promoted_by_failover_only(target: Target) -> None:
    target.create(partitions=2)
    target.alter(
        MirrorAction.NONE,
        partitions=[AlteredMirrorPartition(index=1, state=MirrorState.FAILED, reason="diverged")],
    )
    refused = target.alter(MirrorAction.PROMOTE)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "failover" in refused.error_message
    target.alter(MirrorAction.SOURCE_UNAVAILABLE)
    assert target.alter(MirrorAction.PROMOTE).error_code == ErrorCode.INVALID_REQUEST
    assert target.alter(MirrorAction.FAILOVER).error_code == 0
    target.until_state(MirrorState.STOPPED)


def test_a_promoted_topic_grows_and_is_written_like_any_other(target: Target) -> None:
    target.create()
    target.alter(MirrorAction.FAILOVER)
    target.until_state(MirrorState.STOPPED)
    grown: Any = target.connection.ask(
        topics.CreatePartitionsRequest([topics.CreatePartitionsTopic(TOPIC, 3, None)], 1000), 3
    )
    assert grown.results[0].error_code == 0
    assert [each.promoted_at for each in target.describe().partitions] == [0, -1, -1]


# -- the way back --------------------------------------------------------------------------------------


def reverse(target: Target, *ends: tuple[int, int]) -> Any:
    partitions = [
        AlteredMirrorPartition(index=index, promoted_at=offset, promoted_epoch=epoch)
        for index, (offset, epoch) in enumerate(ends)
    ]
    return target.alter(MirrorAction.REVERSE, partitions=partitions)


def test_the_old_primary_is_cut_to_where_the_new_one_was_promoted(
    broker: EmbeddedBroker, target: Target
) -> None:
    broker.create_topic(TOPIC)
    for _ in range(5):
        produced(target)
    epoch = target.leader_epoch()
    broker.restart()  # which gives it a new epoch
    with Target(broker.port) as again:
        produced(again)
        assert again.leader_epoch() > epoch
        assert reverse(again, (4, epoch)).error_code == 0
        described = again.until_state(MirrorState.ACTIVE).partitions[0]
        assert (described.log_end_offset, described.last_epoch) == (4, epoch)
        assert produced(again).error_code == ErrorCode.POLICY_VIOLATION
        again.raise_epoch(epoch + EPOCH_JUMP)
        assert again.append(batch(4, 2, epoch + EPOCH_JUMP)).log_end_offset == 6


def test_the_old_primary_may_have_lost_more_than_the_new_one_took(
    broker: EmbeddedBroker, target: Target
) -> None:
    broker.create_topic(TOPIC)
    for _ in range(3):
        produced(target)
    epoch = target.leader_epoch()
    assert reverse(target, (10, epoch)).error_code == 0
    assert target.until_state(MirrorState.ACTIVE).partitions[0].log_end_offset == 3


def test_a_reversal_names_every_partition(broker: EmbeddedBroker, target: Target) -> None:
    broker.create_topic(TOPIC, partitions=2)
    assert reverse(target, (0, -1)).error_code == ErrorCode.INVALID_REQUEST
    assert target.describe().error_code == ErrorCode.RESOURCE_NOT_FOUND


def test_there_and_back_again(target: Target) -> None:
    """Promoted, turned round, promoted: a topic may change sides as often as it likes."""
    target.create()
    target.append(batch(0, 5))
    target.alter(MirrorAction.FAILOVER)
    target.until_state(MirrorState.STOPPED)
    produced(target)
    assert reverse(target, (5, 0)).error_code == 0
    assert target.until_state(MirrorState.ACTIVE).partitions[0].log_end_offset == 5
    higher = target.leader_epoch() + EPOCH_JUMP
    target.raise_epoch(higher)
    assert target.append(batch(5, 5, higher)).log_end_offset == 10
    target.alter(MirrorAction.FAILOVER)
    described = target.until_state(MirrorState.STOPPED).partitions[0]
    assert (described.promoted_at, described.promoted_epoch) == (10, higher)
    assert produced(target).base_offset == 10


# -- kill -9 -------------------------------------------------------------------------------------------


def forget(mirrors: Mirrors) -> None:
    """Nothing is prepared."""
    mirrors.follow = lambda partition: None  # type: ignore[method-assign]


def stay_silent(mirrors: Mirrors) -> None:
    """Markers are written without notification."""
    mirrors._ask_controller = lambda message: asyncio.Event().wait()


def tell_of_one(mirrors: Mirrors) -> None:
    """The controller is notified of one partition."""
    ask, described = mirrors._ask_controller, list[Any]()

    async def once(message: Any) -> Any:
        if described:
            await asyncio.Event().wait()
        described.append(message)
        message.topics[0].partitions = message.topics[0].partitions[:1]
        return await ask(message)

    mirrors._ask_controller = once


def lose_the_answer(mirrors: Mirrors) -> None:
    ask = mirrors._ask_controller

    async def lost(message: Any) -> Any:
        await ask(message)
        await asyncio.Event().wait()

    mirrors._ask_controller = lost


@pytest.mark.parametrize("stop", [forget, stay_silent, tell_of_one, lose_the_answer])
def test_a_broker_killed_at_any_step_of_a_promotion_finishes_it(
    broker: EmbeddedBroker, stop: Callable[[Mirrors], None]
) -> None:
    stop(broker.broker.mirrors)
    with Target(broker.port) as target:
        target.create(partitions=3)
        for index in range(3):
            target.append(batch(0, 2), transactional(2, 2), index=index)
        target.alter(MirrorAction.PROMOTE)
        if stop is not forget:
            until(lambda: all(each.log_end_offset == 5 for each in target.describe().partitions))
    broker.kill()
    broker.start()
    with Target(broker.port) as target:
        described = target.until_state(MirrorState.STOPPED).partitions
        assert [each.promoted_at for each in described] == [4, 4, 4]
        assert [len(each.aborted_transactions) for each in described] == [1, 1, 1]
        assert until(lambda: produced(target).error_code == 0)
        batches = memoryview(target.fetch(4, index=1))
        assert [header.is_control for _, header in iterate_headers(batches)] == [True]


@pytest.mark.parametrize("stop", [forget, stay_silent, lose_the_answer])
def test_a_broker_killed_at_any_step_of_a_reversal_finishes_it(
    broker: EmbeddedBroker, stop: Callable[[Mirrors], None]
) -> None:
    broker.create_topic(TOPIC)
    stop(broker.broker.mirrors)
    with Target(broker.port) as target:
        for _ in range(5):
            produced(target)
        assert reverse(target, (3, target.leader_epoch())).error_code == 0
        if stop is not forget:
            until(lambda: target.described().log_end_offset == 3)
    broker.kill()
    broker.start()
    with Target(broker.port) as target:
        assert target.until_state(MirrorState.ACTIVE).partitions[0].log_end_offset == 3


def test_transactions_that_ended_at_the_source_are_not_ended_again(target: Target) -> None:
    target.create()
    marker = end_transaction_marker(PRODUCER, 3, EndTransactionMarker(True, 0), timestamp=1)
    marker = bytearray(marker)
    marker[0:8] = (2).to_bytes(8, "big")
    marker[12:16] = (0).to_bytes(4, "big")
    target.append(transactional(0, 2), bytes(marker))
    target.alter(MirrorAction.PROMOTE)
    described = target.until_state(MirrorState.STOPPED).partitions[0]
    assert (described.promoted_at, described.log_end_offset, described.aborted_transactions) == (3, 3, [])


def test_a_name_as_long_as_names_can_be_is_answered(target: Target) -> None:
    """Its error quotes it, and must fit into the answer, too."""
    name = "x" * 32_767
    answer: Any = target.connection.ask(DescribeMirrorsRequest([name]), 0)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.topics[0].error_message.startswith("unknown topic xxx")
