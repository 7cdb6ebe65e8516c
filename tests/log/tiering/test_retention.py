"""Total and local retention."""

from dataclasses import replace

import pytest

from barnabas.log.tiering.retention import is_due_for_copying
from tests.support.builders.logs import NOW, append, batch, read_all
from tests.support.builders.tiered_logs import DAY_MS, LATER, TIERED, TieredScene


def offsets_of(scene: TieredScene) -> tuple[int, int, int]:
    offsets = scene.log.offsets
    return offsets.start, offsets.local_start, offsets.tiered_end


def copied(count: int = 2, **settings: int | bool) -> TieredScene:
    """Segments of 6 records; `count` of the first two are copied, the last is active."""
    scene = TieredScene(replace(TIERED, **settings))  # type: ignore[arg-type]
    scene.remote.copy(scene.log, count)
    scene.log.use_remote(scene.remote)
    scene.log.flush()
    return scene


def test_local_retention_by_age_removes_only_copied_segments() -> None:
    scene = copied(1)
    scene.log.delete_old_segments(NOW + DAY_MS)
    assert offsets_of(scene) == (0, 0, 6)
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 6, 6)
    assert read_all(scene.log, 6)[0] == (6, b"value-6")
    assert [segment.base_offset for segment in scene.log.segments] == [6, 12]


def test_local_retention_by_size_counts_local_bytes() -> None:
    scene = copied(local_retention_ms=-1, local_retention_bytes=900)
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 6, 12)


def test_the_active_segment_never_leaves_the_disk_by_local_retention() -> None:
    scene = copied(local_retention_bytes=0)
    scene.log.note_tiered(18)
    scene.log.flush()
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 12, 18)


def test_segments_not_copied_by_the_checkpoint_stay() -> None:
    scene = TieredScene()
    scene.remote.copy(scene.log)
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 0, 12)
    scene.log.flush()
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 12, 12)


def test_uncommitted_segments_do_not_count_as_copied() -> None:
    scene = TieredScene()
    scene.log.note_tiered(100)
    assert scene.log.offsets.tiered_end == 18


@pytest.mark.parametrize("settings", [{"local_retention_ms": -2}, {"remote_log_copy_disable": True}])
def test_without_limits_of_its_own_the_local_part_is_kept_as_long_as_all(settings: dict[str, int]) -> None:
    scene = copied(**settings)
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 0, 12)


def test_total_retention_by_age_reaches_into_the_remote_part_and_only_there_if_the_rest_is_young() -> None:
    scene = copied(retention_ms=DAY_MS, local_retention_ms=1)
    scene.log.delete_old_segments(NOW + 20)
    assert offsets_of(scene) == (0, 12, 12)
    scene.log.delete_old_segments(NOW + DAY_MS + 6)
    assert offsets_of(scene) == (6, 12, 12)
    assert scene.log.epochs.entries == ((2, 6),)


def test_expired_segments_are_deleted_without_being_copied() -> None:
    scene = copied(1, retention_ms=DAY_MS)
    scene.log.delete_old_segments(LATER)
    scene.log.flush()
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (18, 18, 6)
    assert [segment.base_offset for segment in scene.log.segments] == [18]
    _, log = scene.restart(scene.fs.crash())
    assert (log.log_start_offset, log.log_end_offset) == (18, 18)


def test_total_retention_by_size_counts_both_tiers_once() -> None:
    """Three segments of about 480 bytes; the first two are in both tiers."""
    size = TieredScene().log.size_bytes
    scene = copied(retention_bytes=size, local_retention_ms=-1)
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 0, 12)
    smaller = copied(retention_bytes=size - scene.log.segments[0].size, local_retention_ms=-1)
    smaller.log.delete_old_segments(LATER)
    assert offsets_of(smaller) == (6, 6, 12)


def test_a_follower_leaves_total_retention_to_its_leader() -> None:
    scene = copied(retention_ms=DAY_MS)
    scene.log.use_remote(None)
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 12, 12)


@pytest.mark.parametrize("settings", [{"retention_ms": DAY_MS}, {"retention_bytes": 0}])
def test_a_leader_that_does_not_know_its_remote_segments_expires_nothing(settings: dict[str, int]) -> None:
    """Local records may be older than remote ones after a backfill."""
    scene = copied(**settings)
    scene.remote.is_known = False
    remote, scene.remote.segments = scene.remote.segments, []
    for _ in range(2):
        scene.log.delete_old_segments(LATER)
        scene.log.flush()
    assert offsets_of(scene) == (0, 12, 12)
    scene.remote.is_known, scene.remote.segments = True, remote
    scene.log.delete_old_segments(LATER)
    assert scene.log.log_start_offset > 0


def test_remote_records_count_once_while_the_high_watermark_of_a_new_leader_is_below_them() -> None:
    scene = copied(retention_bytes=TieredScene().log.size_bytes, local_retention_ms=-1)
    scene.log.offsets.lower_tiered_end(6)  # as noted so far: no more was committed here
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (0, 0, 6)


def test_a_topic_of_which_nothing_is_copied_yet_has_total_retention() -> None:
    scene = TieredScene(replace(TIERED, retention_ms=DAY_MS))
    scene.log.delete_old_segments(LATER)
    assert offsets_of(scene) == (18, 18, -1)


def test_the_active_segment_is_sealed_after_a_while_so_that_it_is_copied() -> None:
    scene = TieredScene()
    active = scene.log.active
    assert not is_due_for_copying(scene.log, active.created_ms + 999, 1000)
    assert is_due_for_copying(scene.log, active.created_ms + 1000, 1000)
    scene.log.roll(LATER)
    assert not is_due_for_copying(scene.log, LATER * 2, 1000)  # there is nothing in it
    append(scene.log, batch(b"x"), epoch=2)
    scene.log.update_config(replace(TIERED, remote_log_copy_disable=True))
    assert not is_due_for_copying(scene.log, LATER * 2, 1000)
