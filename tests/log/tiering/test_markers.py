"""A log restored at the tiered end without its tail ends the transactions that were open there."""

from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.log.recovery.snapshots import encode_snapshot
from barnabas.log.tiering.copying import OpenTransaction
from barnabas.log.tiering.markers import lost_markers, write_lost_markers
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, get, loaded, produced

CONFIG = LogConfig(remote_storage_enable=True)
END = 4


def begun(fs: FaultyFileSystem) -> Log:
    """Of a log in which producers 7 and 8 have open transactions, only the part below offset 4 is left."""
    source = loaded(FaultyFileSystem(), CONFIG)[0].create(PARTITION, TOPIC_ID, CONFIG)
    append(source, produced(7, 2, 0, b"a", b"b", transactional=True))
    append(source, produced(8, 0, 0, b"c", b"d", transactional=True))
    producers = encode_snapshot(source.producers)
    log = loaded(fs, CONFIG)[0].create(PARTITION, TOPIC_ID, CONFIG)
    log.start_at(END, 0, ((0, 0),), producers)
    return log


OUTCOMES = (OpenTransaction(7, 2, 0, True), OpenTransaction(8, 0, 2, False))


def test_last_stable_offset_advances_after_the_markers() -> None:
    log = begun(FaultyFileSystem())
    assert lost_markers(log) == {7: 0, 8: 2}
    assert log.last_stable_offset < END
    assert write_lost_markers(log, OUTCOMES, 5, NOW) == 2
    assert (lost_markers(log), log.log_end_offset) == ({}, END + 2)
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == END + 2
    aborted = [(each.producer_id, each.first_offset) for segment in log.segments for each in segment.aborted]
    assert aborted == [(8, 2)]


def test_unknown_transactions_are_aborted() -> None:
    log = begun(FaultyFileSystem())
    assert write_lost_markers(log, (), 5, NOW) == 2
    aborted = sorted(each.producer_id for segment in log.segments for each in segment.aborted)
    assert aborted == [7, 8]


def test_a_crash_between_the_markers_leaves_the_rest_to_be_written() -> None:
    fs = FaultyFileSystem()
    log = begun(fs)
    write_lost_markers(log, OUTCOMES, 5, NOW)
    log.truncate_to(END + 1)  # as if the second had never reached the disk
    again = get(loaded(fs, CONFIG, boot="boot-1")[0])
    assert lost_markers(again) == {8: 2}
    assert write_lost_markers(again, OUTCOMES, 6, NOW) == 1
    assert lost_markers(again) == {}


def test_a_transaction_that_began_above_the_tiered_end_is_its_producers_business() -> None:
    log = begun(FaultyFileSystem())
    write_lost_markers(log, OUTCOMES, 5, NOW)
    append(log, produced(9, 0, 0, b"e", transactional=True), epoch=5)
    assert lost_markers(log) == {}
