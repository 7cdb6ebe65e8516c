from __future__ import annotations

import random

import pytest

from barnabas.services.mirror.offset_map import OffsetMap, OffsetRun, decode_runs, encode_runs, runs_of


def test_every_offset_of_a_random_history_is_mapped_exactly() -> None:
    rng = random.Random(7)
    source = target = 0
    pairs: dict[int, int] = {}
    made, stored = OffsetMap(), []
    for _ in range(300):
        source += rng.choice((0, 1, 1, 7))  # markers, aborted records, compaction
        target += rng.choice((0, 1, 1, 3))  # our own markers, other writers
        offsets = []
        for _ in range(rng.randint(1, 20)):
            offsets.append(source)
            source += rng.choice((1, 1, 1, 2))
        runs = runs_of(offsets, target)
        pairs |= {offset: target + index for index, offset in enumerate(offsets)}
        target += len(offsets)
        stored.append(encode_runs(runs))
        for run in runs:
            made.add(run)
    again = OffsetMap(run for value in stored for run in decode_runs(value))
    assert len(again) == len(made) < len(pairs)
    later = sorted(pairs)
    for offset in range(source + 3):
        following = next((each for each in later if each >= offset), None)
        source_servers = target if following is None else pairs[following]
        assert made.target_of(offset) == again.target_of(offset) == source_servers
    for offset, there in pairs.items():
        assert made.source_of(there) == offset


def test_runs_that_go_on_are_one() -> None:
    made = OffsetMap([OffsetRun(0, 10, 5), OffsetRun(5, 15, 5)])
    assert len(made) == 1
    assert made.target_of(9) == 19


def test_runs_must_come_in_order() -> None:
    with pytest.raises(ValueError, match="does not come after"):
        OffsetMap([OffsetRun(5, 5, 5), OffsetRun(7, 20, 1)])


def test_runs_before_the_log_start_of_the_target_are_dropped_except_the_last() -> None:
    made = OffsetMap([OffsetRun(0, 0, 5), OffsetRun(10, 6, 5), OffsetRun(20, 12, 5)])
    assert made.forget_below(6) == [0]
    assert made.target_of(3) == 6
    assert made.forget_below(100) == [10]
    assert made.target_of(30) == 17


def test_nothing_mirrored_maps_nothing() -> None:
    assert OffsetMap().target_of(0) is None


def test_a_usual_run_takes_few_bytes() -> None:
    runs = [OffsetRun(1_000_000 + 1000 * n, 2_000_000 + 1001 * n, 1000) for n in range(100)]
    assert decode_runs(encode_runs(runs)) == runs
    assert len(encode_runs(runs)) < 500
    with pytest.raises(ValueError, match="a run of"):
        decode_runs(encode_runs([OffsetRun(0, 0, -1)]))
