"""A follower writes the batches of a response together, with the same result as single writes."""

import errno
import random
from collections.abc import Callable

import pytest

from barnabas.common.errors import KafkaError
from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.log.recovery.snapshots import encode_snapshot
from barnabas.records.batch import iterate_headers
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import (
    NOW,
    append,
    batch,
    content,
    end_transaction,
    marker,
    new_log,
    produced,
    read_all,
)

CONFIGS = {
    "one segment": LogConfig(index_interval_bytes=200),
    "small segments": LogConfig(segment_bytes=2000, index_interval_bytes=150),
    "segments by time": LogConfig(segment_ms=500, index_interval_bytes=100),
    "full indexes": LogConfig(segment_index_bytes=64, index_interval_bytes=100),
}


def sent_by_a_leader(rng: random.Random, batches: int = 60) -> bytes:
    """Of plain and transactional producers, in several epochs; some transactions are aborted, one stays open."""
    leader = new_log("/leader", LogConfig(message_timestamp_after_max_ms=1 << 40), FaultyFileSystem())
    epoch, sequences, open_ones = 0, dict.fromkeys(range(4), 0), set[int]()
    for number in range(batches):
        epoch += rng.random() < 0.1
        values = [rng.randbytes(rng.randrange(80)) for _ in range(rng.randrange(1, 4))]
        time = NOW + number * rng.randrange(40)
        producer = rng.randrange(5)
        if producer == 4:
            append(leader, batch(*values, timestamp=time), epoch=epoch)
        elif producer in open_ones and rng.random() < 0.4:
            end_transaction(leader, marker(producer, 0, committed=rng.random() < 0.5, timestamp=time))
            open_ones.remove(producer)
        else:
            data = produced(producer, 0, sequences[producer], *values, timestamp=time, transactional=True)
            append(leader, data, epoch=epoch)
            sequences[producer] += len(values)
            open_ones.add(producer)
    return content(leader.read(0, 1 << 20, leader.log_end_offset))


def follower_of(config: LogConfig) -> tuple[FaultyFileSystem, Log]:
    fs = FaultyFileSystem()
    return fs, new_log("/follower", config, fs)


def state_of(fs: FaultyFileSystem, log: Log) -> list[object]:
    """All that a reader, a recovery or a leader could see; the files last, when the log is closed."""
    end = log.log_end_offset
    aborted = log.aborted_transactions(0, end)
    places = [content(log.read(offset, 1, end)) for offset in range(end)]
    seen = [end, log.last_stable_offset, log.epochs.entries, encode_snapshot(log.producers), aborted, places]
    log.close()
    return [*seen, sorted(fs.files())]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("seed", range(5))
def test_batches_written_together_leave_the_same_state_as_single_ones(config: LogConfig, seed: int) -> None:
    sent = sent_by_a_leader(random.Random(seed))
    (one_fs, at_once), (other_fs, alone) = follower_of(config), follower_of(config)
    at_once.append_as_follower(memoryview(sent), NOW)
    for position, header in iterate_headers(sent):
        alone.append_as_follower(memoryview(sent)[position : position + header.size], NOW)
    assert state_of(one_fs, at_once) == state_of(other_fs, alone)


@pytest.mark.parametrize("seed", range(3))
def test_those_that_were_walked_through_are_taken_and_no_others(seed: int) -> None:
    rng = random.Random(seed)
    sent = sent_by_a_leader(rng)
    walked = list(iterate_headers(sent))
    cut = rng.randrange(1, len(walked) - 1)
    (one_fs, in_two), (other_fs, at_once) = follower_of(LogConfig()), follower_of(LogConfig())
    in_two.append_as_follower(memoryview(sent), NOW, walked[:cut])
    assert in_two.log_end_offset == walked[cut][1].base_offset
    in_two.append_as_follower(memoryview(sent), NOW, walked[cut:])
    at_once.append_as_follower(memoryview(sent), NOW)
    assert state_of(one_fs, in_two) == state_of(other_fs, at_once)


def damaged(sent: bytearray, position: int) -> bytes:
    sent[position + 60] ^= 1
    return bytes(sent)


def twice(sent: bytearray, position: int) -> bytes:
    return bytes(sent[:position] + sent)


@pytest.mark.parametrize("spoil", [damaged, twice])
def test_batches_before_an_invalid_one_are_written_and_later_ones_are_not(
    spoil: Callable[[bytearray, int], bytes],
) -> None:
    sent = bytearray(sent_by_a_leader(random.Random(7)))
    position, header = list(iterate_headers(sent))[40]
    (one_fs, follower), (other_fs, good) = follower_of(LogConfig()), follower_of(LogConfig())
    good.append_as_follower(memoryview(sent)[:position], NOW)
    with pytest.raises(KafkaError):
        follower.append_as_follower(memoryview(spoil(sent, position)), NOW)
    assert follower.log_end_offset == header.base_offset
    assert state_of(one_fs, follower) == state_of(other_fs, good)


def test_a_disk_that_is_full_in_the_middle_leaves_whole_batches_and_the_rest_follows_later() -> None:
    sent = sent_by_a_leader(random.Random(3))
    fs, follower = follower_of(LogConfig())
    fs.fail_at(3, OSError(errno.ENOSPC, "no space left"), "append")
    with pytest.raises(KafkaError):
        follower.append_as_follower(memoryview(sent), NOW)
    fs.heal()
    ends = {header.base_offset for _, header in iterate_headers(sent)}
    assert follower.log_end_offset in ends
    rest = [each for each in iterate_headers(sent) if each[1].base_offset >= follower.log_end_offset]
    follower.append_as_follower(memoryview(sent), NOW, rest)
    whole_fs, complete = follower_of(LogConfig())
    complete.append_as_follower(memoryview(sent), NOW)
    assert read_all(follower) == read_all(complete)
    assert state_of(fs, follower) == state_of(whole_fs, complete)
