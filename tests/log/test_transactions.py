"""Transactions in a partition: stable offsets, aborted ranges, markers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.topic import LogConfig
from barnabas.log.log import Log, Origin
from barnabas.log.producers import ProducerStates
from barnabas.log.segments.aborted_index import (
    AbortedTransaction,
    TransactionIndexError,
    decode_aborted,
    encode_aborted,
)
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


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return new_log(tmp_path / "orders-0", LogConfig(segment_bytes=400))


def in_transaction(log: Log, producer_id: int, sequence: int = 0, epoch: int = 0) -> int:
    return append(log, produced(producer_id, epoch, sequence, b"x", transactional=True)).first_offset


def test_the_last_stable_offset_stops_at_the_first_open_transaction(log: Log) -> None:
    append(log, batch(b"a"))
    assert log.last_stable_offset == 1
    in_transaction(log, 7)
    append(log, batch(b"b"))
    in_transaction(log, 8)
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    end_transaction(log, marker(7, 0, committed=True))
    assert log.last_stable_offset == 3
    end_transaction(log, marker(8, 0, committed=False))
    assert log.last_stable_offset == log.high_watermark == 6


def test_a_transaction_is_unstable_until_its_marker_is_below_the_high_watermark(log: Log) -> None:
    in_transaction(log, 7)
    log.append_as_leader(memoryview(marker(7, 0, committed=True)), 0, NOW, origin=Origin.COORDINATOR)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_aborted_transactions_are_found_by_offsets(log: Log) -> None:
    in_transaction(log, 7)  # 0
    in_transaction(log, 8)  # 1
    end_transaction(log, marker(8, 0, committed=False))  # 2
    end_transaction(log, marker(7, 0, committed=False))  # 3
    append(log, batch(b"a"))  # 4
    in_transaction(log, 9)  # 5
    end_transaction(log, marker(9, 0, committed=True))  # 6
    in_transaction(log, 9, 1)  # 7
    end_transaction(log, marker(9, 0, committed=False))  # 8
    assert len(log.segments) > 1
    assert log.aborted_transactions(0, 9) == [(7, 0), (8, 1), (9, 7)]
    assert log.aborted_transactions(0, 5) == [(7, 0), (8, 1)]
    assert log.aborted_transactions(3, 5) == [(7, 0)]
    assert log.aborted_transactions(4, 7) == []
    assert log.aborted_transactions(8, 9) == [(9, 7)]


def test_a_marker_without_a_transaction_ends_nothing(log: Log) -> None:
    end_transaction(log, marker(7, 0, committed=False))
    assert log.aborted_transactions(0, 1) == []
    assert log.last_stable_offset == 1


def test_a_transaction_below_the_log_start_does_not_hold_the_last_stable_offset_back(log: Log) -> None:
    in_transaction(log, 7)  # 0
    append(log, batch(b"a"))  # 1
    append(log, batch(b"b"))  # 2
    assert log.last_stable_offset == 0
    log.advance_log_start(1)
    assert log.last_stable_offset == 3
    in_transaction(log, 7, 1)  # 3
    append(log, batch(b"c"))  # 4
    assert (log.last_stable_offset, log.high_watermark) == (3, 5)
    end_transaction(log, marker(7, 0, committed=False))
    assert log.aborted_transactions(1, 6) == [(7, 0)]
    assert log.last_stable_offset == 6


def test_the_last_stable_offset_is_never_below_the_log_start(log: Log) -> None:
    in_transaction(log, 7)
    in_transaction(log, 7, 1)
    in_transaction(log, 7, 2)
    log.advance_log_start(1)
    assert log.last_stable_offset == log.log_start_offset == 1


def test_a_truncation_leaves_no_open_transaction_below_the_log_start(log: Log) -> None:
    """A follower of a mirror: its leader was cut, began again at 1, and knows nothing of the producer."""
    in_transaction(log, 7)
    append(log, batch(b"a"))
    in_transaction(log, 7, 1)
    log.advance_log_start(1)
    assert log.last_stable_offset == 1
    log.truncate_to(2)
    assert log.last_stable_offset == 2


@pytest.mark.parametrize("is_noted", [True, False])
def test_recovery_knows_which_open_transactions_are_below_the_log_start(is_noted: bool) -> None:
    fs = FaultyFileSystem()
    logs, _ = loaded(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    in_transaction(log, 7)
    append(log, batch(b"a"))
    log.advance_log_start(1)
    log.roll(NOW)
    if is_noted:
        logs.checkpoint()
    logs, _ = loaded(fs.crash(lose_unsynced=False), boot="boot-2")
    log = get(logs)
    log.commit_written()
    assert (log.log_start_offset, log.last_stable_offset) == ((1, 2) if is_noted else (0, 0))


def test_a_producer_whose_transaction_was_deleted_expires(log: Log) -> None:
    in_transaction(log, 7)
    append(log, batch(b"a"))
    assert (log.producers.expire(NOW + 2000, 1000), len(log.producers)) == (1, 1)
    log.advance_log_start(1)
    assert (log.producers.expire(NOW + 2000, 1000), len(log.producers)) == (1, 0)
    assert log.producers.open_transactions == {}


def test_undecided_transactions_below_the_log_start_are_not_compacted_or_copied(log: Log) -> None:
    in_transaction(log, 7)
    append(log, batch(b"a"))
    log.advance_log_start(1)
    assert (log.last_stable_offset, log.decided_offset) == (2, 0)
    end_transaction(log, marker(7, 0, committed=True))
    assert log.decided_offset == 3


def test_an_old_epoch_cannot_end_a_transaction(log: Log) -> None:
    in_transaction(log, 7, epoch=3)
    with pytest.raises(KafkaError) as refusal:
        end_transaction(log, marker(7, 2, committed=True))
    assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_old_coordinator_cannot_end_a_transaction(log: Log) -> None:
    in_transaction(log, 7)
    end_transaction(log, marker(7, 0, committed=True, coordinator_epoch=5))
    in_transaction(log, 7, 1)
    with pytest.raises(KafkaError) as refusal:
        end_transaction(log, marker(7, 0, committed=True, coordinator_epoch=4))
    assert refusal.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_of_a_new_epoch_fences_the_old_one(log: Log) -> None:
    in_transaction(log, 7)
    end_transaction(log, marker(7, 1, committed=False))
    with pytest.raises(KafkaError) as refusal:
        in_transaction(log, 7, 1, epoch=0)
    assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert in_transaction(log, 7, 0, epoch=1) == 2


def test_a_batch_outside_of_the_open_transaction_is_refused(log: Log) -> None:
    in_transaction(log, 7)
    with pytest.raises(KafkaError) as refusal:
        append(log, produced(7, 0, 1, b"x"))
    assert refusal.value.code is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("how", ["clean", "killed", "crashed"])
def test_open_and_aborted_transactions_survive_a_restart(how: str) -> None:
    config = LogConfig(segment_bytes=400)
    fs = FaultyFileSystem()
    logs, _ = loaded(fs, config)
    log = logs.create(PARTITION, TOPIC_ID, config)
    in_transaction(log, 7)
    for _ in range(8):
        append(log, batch(b"between"))
    in_transaction(log, 8)
    end_transaction(log, marker(7, 0, committed=False))
    if how == "clean":
        logs.close()
    else:
        fs = fs.crash(lose_unsynced=False)
    logs, _ = loaded(fs, config, boot="boot-2" if how == "crashed" else "boot-1")
    log = get(logs)
    log.advance_high_watermark(log.log_end_offset)
    assert log.aborted_transactions(0, log.log_end_offset) == [(7, 0)]
    assert log.producers.open_transactions == {8: 9}
    assert log.last_stable_offset == 9
    end_transaction(log, marker(8, 0, committed=False))
    assert log.aborted_transactions(0, log.log_end_offset) == [(7, 0), (8, 9)]


@pytest.mark.parametrize("damage", [b"\x00\x07" + bytes(32), b"short"])
def test_a_damaged_transaction_index_is_built_again(damage: bytes) -> None:
    fs = FaultyFileSystem()
    logs, _ = loaded(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    in_transaction(log, 7)
    end_transaction(log, marker(7, 0, committed=False))
    logs.close()
    path = "/data/orders-0/00000000000000000000.txnindex"
    sound = fs.read_bytes(path)
    fs.overwrite(path, damage)
    logs, _ = loaded(fs)
    assert get(logs).aborted_transactions(0, 2) == [(7, 0)]
    assert fs.read_bytes(path) == sound


def test_truncation_restores_the_open_transaction(log: Log) -> None:
    in_transaction(log, 7)
    append(log, batch(b"a"))
    end_transaction(log, marker(7, 0, committed=False))
    log.truncate_to(2)
    assert log.producers.open_transactions == {7: 0}
    assert log.aborted_transactions(0, 2) == []
    assert log.last_stable_offset == 0


def test_the_file_is_kafkas() -> None:
    entry = AbortedTransaction(producer_id=7, first_offset=1, last_offset=2, last_stable_offset=3)
    data = encode_aborted([entry])
    assert data == bytes(2) + b"".join(number.to_bytes(8, "big") for number in (7, 1, 2, 3))
    assert decode_aborted(data) == [entry]
    with pytest.raises(TransactionIndexError):
        decode_aborted(data[:-1])


# -- the last stable offset without looking at every transaction ------------------------------------------------------

producer_ids = st.integers(0, 5)
happenings = st.lists(
    st.tuples(st.sampled_from(["write", "commit", "abort", "replicate", "snapshot"]), producer_ids),
    max_size=60,
)


@settings(deadline=None)
@given(happenings)
def test_the_first_unstable_offset_is_that_of_the_earliest_transaction_that_matters(
    story: list[tuple[str, int]],
) -> None:
    producers = ProducerStates()
    opened: dict[int, int] = {}
    decided: list[tuple[int, int]] = []
    end = high_watermark = 0
    for what, producer_id in story:
        if what == "write":
            producers.remember(read_header(produced(producer_id, 0, 0, b"x", transactional=True)), end, NOW)
            opened.setdefault(producer_id, end)
            end += 1
        elif what == "replicate":
            high_watermark = max(high_watermark, end - producer_id)
            producers.high_watermark_moved(high_watermark)
            decided = [pair for pair in decided if pair[1] >= high_watermark]
        elif what == "snapshot":
            producers.restore(list(producers))
            decided = []
        else:
            ending = read_header(marker(producer_id, 0, committed=what == "commit"))
            producers.end_transaction(ending, end, 0, NOW, aborted=what == "abort")
            if producer_id in opened:
                decided.append((opened.pop(producer_id), end))
            end += 1
        expected = min([*opened.values(), *(first for first, _ in decided)], default=None)
        assert producers.first_unstable_offset == expected
        assert producers.has_transactions == (expected is not None)
