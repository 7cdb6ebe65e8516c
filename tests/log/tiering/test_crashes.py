"""A power failure at every step of operations on a tiered log loses nothing."""

import random
from collections.abc import Callable

import pytest

from barnabas.log.log import Log
from barnabas.log.recovery.snapshots import encode_snapshot
from barnabas.testing.files import PowerLost
from tests.support.builders.logs import NOW, append, batch, read_all
from tests.support.builders.tiered_logs import LATER, TieredScene

EPOCHS = ((1, 0), (2, 6))


def copy_and_leave_disk(scene: TieredScene) -> None:
    scene.remote.copy(scene.log)
    scene.log.flush()
    scene.log.delete_old_segments(LATER)
    scene.save()


def copy_and_leave_disk_twice(scene: TieredScene) -> None:
    scene.remote.copy(scene.log, 1)
    scene.log.flush()
    scene.log.delete_old_segments(LATER)
    copy_and_leave_disk(scene)


def delete_records_of_the_remote_part(scene: TieredScene) -> None:
    copy_and_leave_disk(scene)
    scene.log.advance_log_start(7)
    scene.logs.checkpoint()
    scene.log.delete_old_segments(LATER)
    scene.save()


def delete_records_above_the_remote_part(scene: TieredScene) -> None:
    copy_and_leave_disk(scene)
    scene.log.advance_log_start(17)
    scene.log.delete_old_segments(LATER)
    scene.save()
    scene.log.delete_old_segments(LATER)


STEPS = (
    copy_and_leave_disk,
    copy_and_leave_disk_twice,
    delete_records_of_the_remote_part,
    delete_records_above_the_remote_part,
)


def after_each_loss_of_power(
    act: Callable[[TieredScene], None], seed: int | None
) -> list[tuple[TieredScene, Log]]:
    """The log as the next start finds it, for each change after which the power may go."""
    found, step, done = [], 0, False
    while not done:
        step += 1
        scene = TieredScene()
        scene.fs.lose_power_at(step)
        try:
            act(scene)
            done = True
        except PowerLost:
            pass
        rng = None if seed is None else random.Random(seed * 1000 + step)
        _, log = scene.restart(scene.fs.crash(torn=rng))
        found.append((scene, log))
    assert step > 5
    return found


@pytest.mark.parametrize("act", STEPS)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_flushed_records_are_local_or_known_to_be_remote(
    act: Callable[[TieredScene], None], seed: int | None
) -> None:
    for scene, log in after_each_loss_of_power(act, seed):
        start, local, tiered = log.log_start_offset, log.local_start_offset, log.offsets.tiered_end
        assert start in (0, 7, 17)
        assert tiered <= scene.remote.end
        assert local == start or local <= tiered
        assert read_all(log, local) == [(offset, b"value-%d" % offset) for offset in range(local, 18)]
        expected = [(epoch, max(first, start)) for epoch, first in EPOCHS]
        assert log.epochs.entries == tuple(expected[-1:] if start >= 6 else expected)


def test_a_restart_keeps_log_start_epochs_and_tiered_end() -> None:
    scene = TieredScene()
    delete_records_of_the_remote_part(scene)
    was = scene.log.offsets
    assert (was.start, was.local_start, was.tiered_end) == (7, 12, 12)
    _, log = scene.restart(scene.fs.crash())
    now = log.offsets
    assert (now.start, now.local_start, now.tiered_end) == (7, 12, 12)
    assert log.epochs.entries == ((2, 7),)
    assert log.high_watermark >= 12


def test_truncation_below_the_local_start_restarts_the_log_there_and_keeps_earlier_remote_segments() -> None:
    scene = TieredScene()
    copy_and_leave_disk(scene)
    scene.log.truncate_to(9)
    offsets = scene.log.offsets
    assert (offsets.start, offsets.local_start, offsets.tiered_end, offsets.end) == (0, 9, 9, 9)
    assert scene.log.epochs.entries == EPOCHS


@pytest.mark.parametrize("seed", [None, 1])
def test_a_cut_below_the_local_start_is_finished_or_not_begun(seed: int | None) -> None:
    step, done = 0, False
    while not done:
        step += 1
        scene = TieredScene()
        copy_and_leave_disk(scene)
        scene.fs.lose_power_at(step)
        try:
            scene.log.truncate_to(9)
            done = True
        except PowerLost:
            pass
        rng = None if seed is None else random.Random(seed * 1000 + step)
        _, log = scene.restart(scene.fs.crash(torn=rng))
        offsets = log.offsets
        assert (offsets.start, log.epochs.entries[:1]) == (0, EPOCHS[:1])
        assert (offsets.local_start, offsets.tiered_end) in ((12, 12), (9, 9))
        if offsets.local_start == 9:
            assert offsets.end == 9
    assert step > 3


def begin_at_20(log: Log) -> None:
    other = TieredScene().log
    log.start_at(20, 3, [(1, 3), (2, 6), (5, 19)], encode_snapshot(other.producers))


def test_a_log_that_begins_at_the_tiered_end_knows_start_epochs_and_producers() -> None:
    scene = TieredScene()
    begin_at_20(scene.log)
    offsets = scene.log.offsets
    assert (offsets.start, offsets.local_start, offsets.tiered_end, offsets.end) == (3, 20, 20, 20)
    assert offsets.high_watermark == 20
    assert scene.log.epochs.entries == ((1, 3), (2, 6), (5, 19))
    producer = scene.log.producers.get(7)
    assert producer is not None
    assert producer.next_sequence == 18
    append(scene.log, batch(b"next", timestamp=NOW), epoch=5)
    assert read_all(scene.log, 20) == [(20, b"next")]


@pytest.mark.parametrize("was_tiered", [False, True])
@pytest.mark.parametrize("seed", [None, 1])
def test_beginning_at_the_tiered_end_happens_or_an_older_log_is_there(
    was_tiered: bool, seed: int | None
) -> None:
    step, done = 0, False
    while not done:
        step += 1
        scene = TieredScene()
        if was_tiered:
            copy_and_leave_disk(scene)
        scene.fs.lose_power_at(step)
        try:
            begin_at_20(scene.log)
            done = True
        except PowerLost:
            pass
        rng = None if seed is None else random.Random(seed * 1000 + step)
        _, log = scene.restart(scene.fs.crash(torn=rng))
        offsets = log.offsets
        if offsets.end == 20:
            assert (offsets.start, offsets.local_start, offsets.tiered_end) == (3, 20, 20)
            assert log.epochs.entries == ((1, 3), (2, 6), (5, 19))
            assert log.producers.get(7) is not None
        else:  # its leader sends it to the tiered end again
            assert offsets.end <= 18
            held = range(offsets.local_start, offsets.end)
            assert read_all(log, offsets.local_start) == [(at, b"value-%d" % at) for at in held]
    assert step > 5


def test_the_end_of_tiering_leaves_a_log_that_starts_on_this_disk() -> None:
    scene = TieredScene()
    copy_and_leave_disk(scene)
    scene.log.end_tiering()
    scene.save()
    _, log = scene.restart(scene.fs.crash())
    assert (log.log_start_offset, log.is_tiered) == (12, False)
    assert read_all(log) == [(at, b"value-%d" % at) for at in range(12, 18)]
