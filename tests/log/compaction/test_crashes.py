"""A power failure at every step of a compaction and its swap; the next start finds a valid log."""

import errno
import random
from contextlib import suppress

import pytest

from barnabas.common.errors import KafkaError
from barnabas.log import names
from barnabas.log.compaction.candidates import CompactionPlan
from barnabas.log.compaction.swap import remove_unfinished
from barnabas.log.failures import DiskFull
from barnabas.records.record import Record
from barnabas.testing.files import FaultyFileSystem, PowerLost
from tests.support.builders.compacted_logs import (
    COMPACTED,
    clean,
    committed,
    final_values,
    keyed,
    plan_for,
    put,
    records,
    run,
)
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, end_transaction, get, loaded, marker

WAYS = ["killed", "all lost", "torn 1", "torn 2", "torn 3"]


class Scene:
    """Several segments with old values, a tombstone, an aborted transaction; flushed, and noted as such."""

    def __init__(self) -> None:
        self.fs = FaultyFileSystem()
        self.logs, _ = loaded(self.fs, COMPACTED)
        self.log = self.logs.create(PARTITION, TOPIC_ID, COMPACTED)
        for number in range(12):
            put(self.log, (b"key-%d" % (number % 5), b"%d" % number), (b"once-%d" % number, b"x" * 40))
            if number % 3 == 2:
                self.log.roll()
        put(self.log, (b"key-0", None))
        self.abort(0, b"key-1")
        self.log.roll()
        self.abort(1, b"key-2")
        put(self.log, (b"last", b""))
        self.log.roll()
        put(self.log, (b"key-3", b"active"))
        plan = plan_for(self.log)
        assert plan is not None
        self.plan: CompactionPlan = plan
        self.logs.checkpoint()
        self.before = {record.offset: record for record in records(self.log)}
        self.table = final_values(committed(self.log))
        self.end = self.log.log_end_offset

    def abort(self, sequence: int, key: bytes) -> None:
        data = keyed(
            (key, b"aborted"), producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        append(self.log, data)
        end_transaction(self.log, marker(7, 0, committed=False))

    def compact(self) -> None:
        result = run(self.log, self.plan)
        self.fs.sync_folder(self.log.folder)
        self.logs.note_cleaned(self.log, result.cleaned_upto)
        self.logs.checkpoint()


def steps() -> int:
    scene = Scene()
    before = len(scene.fs.operations)
    scene.compact()
    return sum(kind not in ("read", "open") for kind in scene.fs.operations[before:])


def crash(fs: FaultyFileSystem, way: str) -> FaultyFileSystem:
    if way == "killed":
        return fs.crash(lose_unsynced=False)
    return fs.crash(torn=None if way == "all lost" else random.Random(way))


@pytest.mark.parametrize("way", WAYS)
def test_power_may_be_lost_at_every_step(way: str) -> None:
    count = steps()
    assert count > 40
    for step in range(1, count + 2):
        scene = Scene()
        scene.fs.lose_power_at(step)
        with suppress(PowerLost):
            scene.compact()
        check(scene, crash(scene.fs, way), "boot-1" if way == "killed" else "boot-2", f"step {step} {way}")


@pytest.mark.parametrize("way", WAYS)
def test_power_may_be_lost_again_while_a_swap_is_finished(way: str) -> None:
    for step in range(1, steps() + 1, 3):
        for later in (1, 2, 4, 7):
            scene = Scene()
            scene.fs.lose_power_at(step)
            with suppress(PowerLost):
                scene.compact()
            boot = "boot-1" if way == "killed" else "boot-2"
            fs = crash(scene.fs, way)
            fs.lose_power_at(later)
            with suppress(PowerLost):
                loaded(fs, COMPACTED, boot=boot)
            check(scene, crash(fs, way), boot, f"step {step} {way} then {later}")


def check(scene: Scene, fs: FaultyFileSystem, boot: str, where: str) -> None:
    logs, report = loaded(fs, COMPACTED, boot=boot)
    assert not report.damaged, (where, report.damaged)
    assert not report.cut_bytes, where
    log = get(logs)
    log.advance_high_watermark(log.log_end_offset)
    assert log.log_end_offset == scene.end, where
    assert_sound(scene, records(log), where)
    assert final_values(committed(log)) == scene.table, where
    left = [name for name in fs.list(log.folder) if name.endswith((names.CLEANED, names.SWAP, names.DELETED))]
    assert not left, where
    assert clean(log, logs.cleaned_upto(log)) or logs.cleaned_upto(log), where
    assert final_values(committed(log)) == scene.table, where
    again = keyed(
        (b"key-2", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True
    )
    assert append(log, again).duplicate, where
    assert append(log, keyed((b"goes", b"on"))).first_offset == scene.end, where


def assert_sound(scene: Scene, found: list[Record], where: str) -> None:
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets)), where
    assert all(scene.before[record.offset] == record for record in found), where


def test_an_input_output_error_during_the_swap_takes_the_dir_offline_and_loses_nothing() -> None:
    for step in range(1, steps() + 1):
        scene = Scene()
        scene.fs.fail_at(step, OSError(5, "Input/output error"))
        failed = False
        try:
            run(scene.log, scene.plan)
        except OSError:  # while the new segments were written: nothing has happened to the log
            assert not scene.logs.offline_dirs
        except KafkaError:
            failed = True
            assert scene.logs.offline_dirs
        scene.fs.heal()
        if not failed:
            assert final_values(committed(scene.log)) == scene.table
        check(scene, scene.fs.crash(), "boot-2", f"step {step}")


def test_a_full_disk_at_any_step_changes_nothing_or_is_no_matter() -> None:
    """Space is taken by creating, appending and renaming; the last also where the new name is longer."""
    taking = ("create", "append", "rename")
    for step in range(1, steps() + 1):
        scene = Scene()
        scene.fs.fail_at(step, OSError(errno.ENOSPC, "No space left on device"), *taking)
        with suppress(OSError, DiskFull):
            run(scene.log, scene.plan)
        remove_unfinished(scene.fs, scene.log.folder)
        assert not scene.logs.offline_dirs, step
        assert_sound(scene, records(scene.log), f"step {step}")
        assert final_values(committed(scene.log)) == scene.table, step
        scene.fs.heal()
        clean(scene.log)
        assert final_values(committed(scene.log)) == scene.table, step
        check(scene, scene.fs.crash(lose_unsynced=False), "boot-1", f"step {step}")


def test_the_checkpoint_of_the_cleaner_survives_and_follows_truncations_and_deletions() -> None:
    scene = Scene()
    scene.compact()
    upto = scene.logs.cleaned_upto(scene.log)
    assert upto == scene.plan.upper
    text = scene.fs.read_bytes("/data/cleaner-offset-checkpoint").decode()
    assert text == f"0\n1\n{PARTITION.topic} {PARTITION.partition} {upto}\n"  # as Kafka writes it
    logs, _ = loaded(scene.fs.crash(), COMPACTED, boot="boot-2")
    assert logs.cleaned_upto(get(logs)) == upto
    get(logs).truncate_to(3)
    assert (logs.cleaned_upto(get(logs)) or 0) <= 3
    logs.delete(PARTITION)
    logs.create(PARTITION, TOPIC_ID, COMPACTED)
    assert logs.fs.read_bytes("/data/cleaner-offset-checkpoint") == b"0\n0\n"


def test_a_compacted_log_starts_cleanly_again() -> None:
    scene = Scene()
    scene.compact()
    found = records(scene.log)
    scene.logs.close()
    logs, report = loaded(scene.fs, COMPACTED)
    assert not report.recovered
    assert records(get(logs)) == found
    assert get(logs).offset_for_timestamp(NOW)
