"""AppendMirrored: batches keep offsets and epochs; non-consecutive batches are rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.types import new_uuid
from barnabas.protocol.messages import mirror, produce, topics, transactions
from barnabas.protocol.messages.mirror import AlteredMirrorPartition, MirrorAction, MirrorState
from barnabas.records.batch import HEADER_SIZE, LOG_OVERHEAD
from barnabas.testing import EmbeddedBroker
from tests.support.brokers import BrokerProcess
from tests.support.clocks import Pings
from tests.support.mirrors.target import SOURCE_CLUSTER, SOURCE_ID, TOPIC, Target, batch

MAX_PING = 0.1
MEMORY = 64 << 20


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def target(broker: EmbeddedBroker) -> Iterator[Target]:
    """With a mirror topic that is new to each test."""
    with Target(broker.port) as asking:
        asking.create()
        yield asking
        asking.connection.ask(
            topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(TOPIC)], timeout_ms=5000), 6
        )


def test_batches_keep_offsets_epochs_and_bytes(target: Target) -> None:
    target.raise_epoch(7)
    sent = [batch(0, 3, 0), batch(3, 2, 4), batch(5, 5, 7)]
    answer = target.append(*sent, source_high_watermark=12)
    assert (answer.error_code, answer.log_end_offset, answer.last_epoch) == (0, 10, 7)
    assert target.fetch() == b"".join(sent)
    described = target.described()
    assert (described.log_end_offset, described.high_watermark, described.last_epoch) == (10, 10, 7)
    assert (described.source_high_watermark, described.state) == (12, MirrorState.ACTIVE)


def test_existing_records_are_acknowledged_and_not_written(target: Target) -> None:
    first, second = batch(0, 3), batch(3, 2)
    target.append(first)
    answer = target.append(first, second)
    assert (answer.error_code, answer.log_end_offset) == (0, 5)
    assert target.fetch() == first + second
    assert target.append(first).log_end_offset == 5


def test_an_empty_request_asks_where_the_log_ends(target: Target) -> None:
    answer = target.append()
    assert (answer.error_code, answer.log_end_offset, answer.last_epoch) == (0, 0, -1)
    target.append(batch(0, 2))
    assert target.append().log_end_offset == 2


def test_a_later_epoch_than_the_leaders_waits_for_the_controller(target: Target) -> None:
    answer = target.append(batch(0), batch(1, 1, 500))
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert answer.log_end_offset == 1, "what comes before it is written"
    target.raise_epoch(500)
    assert target.append(batch(1, 1, 500)).log_end_offset == 2


def test_a_gap_is_refused_unless_the_topic_is_compacted(target: Target) -> None:
    target.append(batch(0))
    answer = target.append(batch(5))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert "a gap" in answer.error_message
    target.create("compacted", cleanup_policy="compact")
    target.append(batch(0), batch(5), name="compacted")
    assert target.described(name="compacted").log_end_offset == 6


def test_a_diverging_epoch_is_an_error_of_its_own(target: Target) -> None:
    target.raise_epoch(9)
    target.append(batch(0, 3, 4))
    for other in (batch(0, 3, 5), batch(2, 4, 4), batch(3, 1, 3)):
        answer = target.append(other)
        assert answer.error_code == ErrorCode.FENCED_STATE_EPOCH
        assert answer.log_end_offset == 3


def test_damaged_batches_are_refused(target: Target) -> None:
    good, damaged = batch(0), bytearray(batch(1, 5))
    damaged[-1] ^= 1
    answer = target.append(good, bytes(damaged))
    assert (answer.error_code, answer.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, 1)
    assert target.append(b"x" * 100).error_code == ErrorCode.CORRUPT_MESSAGE
    assert target.append(batch(1)[:40]).error_code == ErrorCode.CORRUPT_MESSAGE
    old = bytearray(batch(1))
    old[16] = 1
    assert target.append(bytes(old)).error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_an_empty_log_starts_where_the_source_does_and_its_start_follows(target: Target) -> None:
    answer = target.append(batch(100, 10), source_log_start_offset=100)
    assert (answer.error_code, answer.log_start_offset, answer.log_end_offset) == (0, 100, 110)
    answer = target.append(batch(110, 10), source_log_start_offset=105)
    assert (answer.log_start_offset, answer.log_end_offset) == (105, 120)
    assert target.append(source_log_start_offset=-1).log_start_offset == 105


def test_log_whose_start_is_inside_a_batch_accepts_the_complete_batch(target: Target) -> None:
    answer = target.append(batch(90, 20), source_log_start_offset=100)
    assert (answer.error_code, answer.log_start_offset, answer.log_end_offset) == (0, 100, 110)


def test_another_source_topic_or_leader_epoch_is_refused(target: Target) -> None:
    assert target.append(batch(0), source_topic_id=bytes(16)).error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    target.raise_epoch(5)
    assert target.append(batch(0), leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert target.append(batch(0), leader_epoch=6).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_epoch_whose_batches_are_all_deleted_is_cut(target: Target) -> None:
    """Otherwise the mirror would request a truncation indefinitely."""
    target.create()
    target.raise_epoch(9)
    assert target.append(batch(0, 5, 8)).last_epoch == 8
    assert target.append(source_log_start_offset=5, source_high_watermark=5).log_start_offset == 5
    cut = target.append(truncate_to=5, truncate_epoch=7, expected_log_end=5)
    assert (cut.error_code, cut.log_end_offset, cut.last_epoch) == (ErrorCode.NONE, 5, -1)


def test_a_log_is_cut_only_if_it_ends_where_the_mirror_believes(target: Target) -> None:
    target.raise_epoch(5)
    target.append(batch(0, 5, 1), batch(5, 5, 1))
    refused = target.append(truncate_to=5, expected_log_end=7)
    assert (refused.error_code, refused.log_end_offset) == (ErrorCode.INVALID_REQUEST, 10)
    cut = target.append(batch(5, 2, 3), truncate_to=5, expected_log_end=10)
    assert (cut.error_code, cut.log_end_offset, cut.last_epoch) == (0, 7, 3)
    target.append(batch(7, 3, 4))
    by_epoch = target.append(truncate_to=8, truncate_epoch=3, expected_log_end=10)
    assert (by_epoch.error_code, by_epoch.log_end_offset, by_epoch.last_epoch) == (0, 7, 3)
    emptied = target.append(batch(50, 1, 3), truncate_to=50, expected_log_end=7)
    assert (emptied.error_code, emptied.log_start_offset, emptied.log_end_offset) == (0, 50, 51)


def test_clients_do_not_write_to_a_mirror_and_hear_where_to(target: Target) -> None:
    data = produce.PartitionProduceData(0, batch(0))
    request = produce.ProduceRequest(None, -1, 5000, [produce.TopicProduceData(TOPIC, partition_data=[data])])
    answer = target.connection.ask(request, 12)
    refused = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    for word in (TOPIC, SOURCE_CLUSTER, "mirror promote", "mirror failover"):
        assert word in refused.error_message
    deleted = target.connection.ask(
        topics.DeleteRecordsRequest(
            [topics.DeleteRecordsTopic(TOPIC, [topics.DeleteRecordsPartition(0, -1)])], 1000
        ),
        2,
    )
    assert deleted.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION  # type: ignore[attr-defined]
    grown = target.connection.ask(
        topics.CreatePartitionsRequest([topics.CreatePartitionsTopic(TOPIC, 5, None)], 1000), 3
    )
    assert grown.results[0].error_code == ErrorCode.POLICY_VIOLATION  # type: ignore[attr-defined]
    added = target.connection.ask(
        transactions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_topics=[transactions.AddPartitionsToTxnTopic(TOPIC, [0])],
        ),
        3,
    )
    results = added.results_by_topic_v3_and_below[0].results_by_partition  # type: ignore[attr-defined]
    assert results[0].partition_error_code == ErrorCode.POLICY_VIOLATION


def test_an_ordinary_topic_takes_no_mirrored_batches(broker: EmbeddedBroker, target: Target) -> None:
    broker.create_topic("ordinary")
    answer = target.append(batch(0), name="ordinary")
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert "not a mirror topic" in answer.error_message


@pytest.mark.parametrize("action", [MirrorAction.PAUSE, MirrorAction.FAIL])
def test_stopped_mirror_reports_the_reason_until_it_is_resumed(target: Target, action: MirrorAction) -> None:
    target.alter(action, reason="moving house")
    answer = target.append(batch(0))
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert "moving house" in answer.error_message
    target.alter(MirrorAction.ACTIVATE)
    assert target.append(batch(0)).log_end_offset == 1


def test_a_failed_partition_takes_nothing_and_the_others_go_on(target: Target) -> None:
    target.create("two", partitions=2)
    failed = AlteredMirrorPartition(index=1, state=MirrorState.FAILED, reason="the source went back in time")
    target.alter(MirrorAction.NONE, "two", partitions=[failed])
    assert target.append(batch(0), name="two", index=0).error_code == 0
    refused = target.append(batch(0), name="two", index=1)
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert "went back in time" in refused.error_message
    described = target.describe("two").partitions
    assert [each.state for each in described] == [MirrorState.ACTIVE, MirrorState.FAILED]
    again = AlteredMirrorPartition(index=1, state=MirrorState.ACTIVE)
    target.alter(MirrorAction.NONE, "two", partitions=[again])
    assert target.append(batch(0), name="two", index=1).error_code == 0


def test_many_batches_of_many_partitions_go_in_one_request(target: Target) -> None:
    target.create("wide", partitions=3)
    sent = [batch(base, 10) for base in range(0, 20_000, 10)]
    for index in range(3):
        assert target.append(*sent, name="wide", index=index).log_end_offset == 20_000
        assert target.fetch(name="wide", index=index) == b"".join(sent)


def tiny_batches(size: int) -> bytes:
    """Nothing but headers, each of a batch without records."""
    empty = batch(0)[:HEADER_SIZE]
    empty = empty[:8] + (HEADER_SIZE - LOG_OVERHEAD).to_bytes(4, "big") + empty[LOG_OVERHEAD:]
    return empty * (size // HEADER_SIZE)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A separate process with its own memory and CPU time."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        with Target(running.port) as target:
            target.create()
        yield running


@pytest.mark.parametrize("name", ["a mirror", "no mirror", "no topic"])
def test_millions_of_tiny_batches_do_not_hold_up_others(process: BrokerProcess, name: str) -> None:
    data = tiny_batches(20 << 20)
    with Target(process.port) as target:
        topic_id, epoch = target.topic().topic_id, target.leader_epoch()
        source_id = new_uuid() if name == "no mirror" else SOURCE_ID
        topic_id = new_uuid() if name == "no topic" else topic_id
        partition = mirror.MirroredPartition(index=0, records=data, leader_epoch=epoch)
        topic = mirror.MirroredTopic(topic_id, source_id, [partition])
        before = process.memory_peak
        with Pings(process) as pings:
            answer: Any = target.connection.ask(mirror.AppendMirroredRequest(topics=[topic]), 0)
        assert answer.topics[0].partitions[0].error_code
        assert pings.longest < MAX_PING
        assert process.memory_peak - before < 2 * len(data) + MEMORY, "what is received, and a copy"
