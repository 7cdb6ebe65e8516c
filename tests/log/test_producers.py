"""Idempotence: responses to duplicate, late, early and outdated batches."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.topic import LogConfig
from barnabas.log import truncation
from barnabas.log.log import Log
from barnabas.log.producer import ProducerState
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.snapshots import decode_snapshot, encode_snapshot
from barnabas.log.truncation import rebuild_producers
from barnabas.records.batch import read_header
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import (
    NOW,
    PARTITION,
    TOPIC_ID,
    append,
    batch,
    end_transaction,
    get,
    loaded,
    marker,
    new_log,
    produced,
)

LARGEST = 0x7FFFFFFF
HOUR = 3_600_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return new_log(tmp_path / "orders-0")


def code(log: Log, data: bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as refusal:
        append(log, data)
    return refusal.value.code


def test_each_of_the_last_five_batches_is_recognised(log: Log) -> None:
    for sequence in range(0, 14, 2):
        append(log, produced(7, 0, sequence, b"a", b"b"))
    for sequence in range(4, 14, 2):
        result = append(log, produced(7, 0, sequence, b"a", b"b"))
        assert result == (sequence, sequence + 1, -1, True)
    assert log.log_end_offset == 14


def test_a_batch_older_than_the_last_five_is_out_of_order(log: Log) -> None:
    for sequence in range(6):
        append(log, produced(7, 0, sequence, b"a"))
    assert code(log, produced(7, 0, 0, b"a")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_out_of_order(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a"))
    assert code(log, produced(7, 0, 2, b"a")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, produced(7, 0, 1, b"a")).first_offset == 1


def test_a_batch_of_the_same_start_and_another_length_is_no_duplicate(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a", b"b"))
    assert code(log, produced(7, 0, 0, b"a")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_anywhere(log: Log) -> None:
    assert append(log, produced(7, 3, 1000, b"a")).first_offset == 0
    assert append(log, produced(7, 3, 1001, b"a")).first_offset == 1


def test_an_old_epoch_is_fenced(log: Log) -> None:
    append(log, produced(7, 3, 0, b"a"))
    assert code(log, produced(7, 2, 1, b"a")) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_zero(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a"))
    assert code(log, produced(7, 1, 1, b"a")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, produced(7, 1, 0, b"a")).duplicate is False
    assert code(log, produced(7, 0, 1, b"a")) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_around(log: Log) -> None:
    append(log, produced(7, 0, LARGEST - 1, b"a", b"b", b"c"))
    assert append(log, produced(7, 0, 1, b"d")).first_offset == 3
    assert append(log, produced(7, 0, LARGEST - 1, b"a", b"b", b"c")).duplicate


def test_a_refused_batch_leaves_no_trace(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a"))
    log.config = LogConfig()
    too_late = produced(7, 0, 1, b"a", timestamp=NOW + 10**12)
    assert code(log, too_late) is ErrorCode.INVALID_TIMESTAMP
    assert append(log, produced(7, 0, 1, b"a")).first_offset == 1


def test_silent_producers_are_forgotten(log: Log) -> None:
    append(log, produced(1, 0, 0, b"a"), NOW - 5000)
    append(log, produced(3, 0, 0, b"a", transactional=True), NOW - 5000)
    append(log, produced(2, 0, 0, b"a"), NOW - 500)
    log.producers.expire(NOW, 1000)
    assert {producer.producer_id for producer in log.producers} == {2, 3}
    assert append(log, produced(1, 0, 17, b"a")).first_offset == 3


def test_producer_of_old_records_is_not_idle(log: Log) -> None:
    append(log, produced(1, 0, 0, b"a", timestamp=NOW - 10**10))
    append(log, produced(2, 0, 0, b"a", timestamp=-1))
    log.producers.expire(NOW + 999, 1000)
    assert append(log, produced(1, 0, 0, b"a", timestamp=NOW - 10**10)).duplicate
    assert append(log, produced(2, 0, 0, b"a", timestamp=-1)).duplicate


def test_producer_of_future_records_expires_like_others(log: Log) -> None:
    append(log, produced(1, 0, 0, b"a", timestamp=NOW + 3_599_000))
    log.producers.expire(NOW + 1000, 1000)
    assert not len(log.producers)


def test_expiry_checks_a_few_producers_at_a_time_and_only_idle_ones(log: Log) -> None:
    for producer_id in range(100):
        append(log, produced(producer_id, 0, 0, b"a"), NOW + producer_id)
    append(log, produced(5, 0, 1, b"a"), NOW + 10_000)
    append(log, produced(0, 0, 1, b"a", transactional=True), NOW + 20)  # always stays
    now = NOW + 1039
    looked_at = [log.producers.expire(now, 1000, limit=16) for _ in range(3)]
    assert looked_at == [16, 16, 7], (
        "of 40 all but 5, which sends again; the open transaction is moved out of the way"
    )
    assert {producer.producer_id for producer in log.producers} == {0, 5, *range(40, 100)}
    assert log.producers.expire(now, 1000, limit=16) == 0


def test_clock_set_back_neither_drops_nor_keeps_entries_indefinitely(log: Log) -> None:
    hours = 3 * 3_600_000
    append(log, produced(1, 0, 0, b"a", timestamp=5), NOW)
    append(log, produced(2, 0, 0, b"a", timestamp=5), NOW - hours)
    log.producers.expire(NOW - hours, 1000)
    assert len(log.producers) == 2
    append(log, produced(1, 0, 1, b"a", timestamp=5), NOW - hours)
    log.producers.expire(NOW - hours + 1000, 1000)
    assert not len(log.producers)


@pytest.mark.parametrize("how", ["clean", "killed", "crashed"])
def test_after_a_start_producers_have_an_hour_to_be_heard_of(how: str) -> None:
    fs = FaultyFileSystem()
    logs, _ = loaded(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, produced(7, 0, 0, b"a", timestamp=5))
    if how == "clean":
        logs.close()
    else:
        fs = fs.crash(lose_unsynced=False)
    logs, _ = loaded(fs, boot="boot-2" if how == "crashed" else "boot-1")
    log, day = get(logs), 24 * HOUR
    log.producers.expire(NOW + HOUR - 1, day)
    assert append(log, produced(7, 0, 0, b"a", timestamp=5), NOW + HOUR - 1).duplicate
    log.producers.expire(NOW + 2 * day, day)
    assert not len(log.producers), "kept, but not for ever"


def test_a_snapshot_keeps_when_a_producer_was_last_heard_of() -> None:
    fs = FaultyFileSystem()
    fs.now_ms = NOW
    logs, _ = loaded(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, produced(7, 0, 0, b"a", timestamp=5), NOW - 1000)
    logs.close()
    logs, _ = loaded(fs)
    assert [producer.last_append_ms for producer in get(logs).producers] == [NOW - 1000]


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_a_snapshot_with_any_time_in_it_counts_as_no_later_than_the_file(timestamp: int) -> None:
    producer = ProducerState(7, 0)
    producer.last_append_ms = timestamp
    (read,) = decode_snapshot(encode_snapshot([producer]), NOW)
    producers = ProducerStates()
    producers.restore([read])
    producers.expire(NOW + 1000, 1000)
    assert not len(producers)


def test_a_truncation_does_not_forget_when_producers_were_heard_of(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a"), NOW)
    log.roll(NOW)
    append(log, produced(7, 0, 1, b"b"), NOW + 5000)
    log.truncate_to(1)
    assert [producer.last_append_ms for producer in log.producers] == [NOW + 5000]


def test_an_active_producer_survives_a_flood_of_others() -> None:
    producers = ProducerStates(limit=10)
    ours = read_header(produced(0, 0, 0, b"a"))
    for number in range(1, 100):
        producers.remember(read_header(produced(number, 0, 0, b"a")), 2 * number, NOW + 1000 * number)
        producers.remember(ours, 2 * number + 1, NOW + 1000 * number)
    assert producers.get(0) is not None


def test_a_flood_of_producer_ids_pushes_out_the_longest_silent() -> None:
    producers = ProducerStates(limit=10)
    for producer_id in range(25):
        data = produced(producer_id, 0, 0, b"a", transactional=producer_id == 0)
        producers.remember(read_header(data), producer_id, NOW)
    assert len(producers) <= 10
    assert producers.get(0) is not None, "an open transaction is never forgotten"
    assert producers.get(24) is not None


# -- after a truncation -------------------------------------------------------------------------------------


def known(producers: ProducerStates) -> dict[int, tuple[object, ...]]:
    return {
        one.producer_id: (
            one.epoch,
            one.last_sequence,
            one.last_offset,
            one.next_sequence,
            one.transaction_start,
        )
        for one in producers
    }


happenings = st.lists(
    st.tuples(
        st.sampled_from(["plain", "batch", "batch", "commit", "abort", "bump", "roll", "restart"]),
        st.integers(0, 2),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(happenings, st.integers(0, 25))
@example([("batch", 1), ("commit", 1), ("restart", 0)], 1)
@example([("batch", 1), ("roll", 0), ("commit", 1), ("plain", 0)], 1)
def test_after_a_cut_producers_are_as_a_replay_finds_them(story: list[tuple[str, int]], cut: int) -> None:
    fs = FaultyFileSystem()
    logs, _ = loaded(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    sequences, epochs = [0, 0, 0], [0, 0, 0]
    for what, producer_id in story:
        if what == "plain":
            append(log, batch(b"x"))
        elif what == "batch":
            epoch, sequence = epochs[producer_id], sequences[producer_id]
            append(log, produced(producer_id, epoch, sequence, b"x", transactional=producer_id > 0))
            sequences[producer_id] += 1
        elif what == "bump":
            if producer_id not in log.producers.open_transactions:
                epochs[producer_id] += 1
                sequences[producer_id] = 0
        elif what == "roll":
            log.roll(NOW)
        elif what == "restart":
            logs.close()
            logs, _ = loaded(fs)
            log = get(logs)
        elif producer_id:
            end_transaction(log, marker(producer_id, epochs[producer_id], committed=what == "commit"))
    log.truncate_to(min(cut, log.log_end_offset))
    replayed = ProducerStates()
    rebuild_producers(replayed, log.snapshots, log.segments, log.log_end_offset)
    assert known(log.producers) == known(replayed)
    assert log.producers.open_transactions == replayed.open_transactions


def test_a_cut_of_the_last_batches_of_a_producer_walks_through_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sequence in range(7):
        append(log, produced(7, 0, sequence, b"a"))
    append(log, produced(8, 0, 0, b"new", transactional=True))
    monkeypatch.setattr(truncation, "replay_segment", None)
    log.truncate_to(4)
    assert log.producers.get(8) is None
    assert log.last_stable_offset == 4
    assert append(log, produced(7, 0, 3, b"a")).duplicate
    assert append(log, produced(7, 0, 4, b"b")).first_offset == 4


def test_a_cut_that_concerns_no_producer_walks_through_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, produced(7, 0, 0, b"a"))
    append(log, batch(b"b"))
    monkeypatch.setattr(truncation, "replay_segment", None)
    log.truncate_to(1)
    assert append(log, produced(7, 0, 0, b"a")).duplicate
